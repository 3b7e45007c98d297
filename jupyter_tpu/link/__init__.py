"""A resumable connection to the agent of one worker: no message is lost or delivered twice.

A `Link` opens a connection, prepares the worker, communicates with the agent and reconnects after every disconnect.
While disconnected, calls wait. Requests are stored until the agent has acknowledged them, and each kernel message is
delivered once and in order. A link runs in one asyncio loop and must be used only from that loop. This package must not
interpret or sign Jupyter messages. Start reading at `link`.
"""

from jupyter_tpu.agent.flow_stream import FlowStream
from jupyter_tpu.link.interfaces import ByteStream, Connection, LinkState, OnMessage, ProcessStream
from jupyter_tpu.link.link import Link
from jupyter_tpu.link.preparation import RUN_PROGRAM, PreparationCache, Ready
from jupyter_tpu.link.streams import KernelStream, refuse_too_large

__all__ = [
    "RUN_PROGRAM",
    "ByteStream",
    "Connection",
    "FlowStream",
    "KernelStream",
    "Link",
    "LinkState",
    "OnMessage",
    "PreparationCache",
    "ProcessStream",
    "Ready",
    "refuse_too_large",
]
