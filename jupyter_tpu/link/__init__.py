"""A resumable connection to the agent of one worker: nothing is lost, and nothing arrives twice.

A `Link` opens a connection, prepares the worker, talks to the agent and reconnects after every cut. Calls wait,
requests are stored until the agent has acknowledged them, and each message of a kernel is delivered once and in order.
It lives in one asyncio loop and is used from that loop only. It must not know what Jupyter's messages mean, and never
signs one. Start reading at `link`.
"""

from jupyter_tpu.link.interfaces import ByteStream, Connection, LinkState, OnMessage, ProcessStream
from jupyter_tpu.link.link import Link
from jupyter_tpu.link.preparation import RUN_PROGRAM, PreparationCache, Ready
from jupyter_tpu.link.streams import KernelStream, refuse_too_large

__all__ = [
    "RUN_PROGRAM",
    "ByteStream",
    "Connection",
    "KernelStream",
    "Link",
    "LinkState",
    "OnMessage",
    "PreparationCache",
    "ProcessStream",
    "Ready",
    "refuse_too_large",
]
