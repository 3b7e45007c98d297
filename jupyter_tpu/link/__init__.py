"""A resumable connection to the agent of one worker.

A `Link` opens a connection, prepares the worker, speaks with the agent and comes back after every cut: calls wait,
requests are kept until the agent has acknowledged them, and each message of a kernel is delivered once and in order.
It lives in one asyncio loop and is used from that loop only. Knows nothing of Jupyter's messages and never signs one.
"""

from jupyter_tpu.link.interfaces import ByteStream, Connection, LinkState, OnMessage, ProcessStream
from jupyter_tpu.link.link import Link
from jupyter_tpu.link.streams import KernelStream, refuse_too_large
from jupyter_tpu.link.worker import RUN_PROGRAM, Memory, Ready

__all__ = [
    "RUN_PROGRAM",
    "ByteStream",
    "Connection",
    "KernelStream",
    "Link",
    "LinkState",
    "Memory",
    "OnMessage",
    "ProcessStream",
    "Ready",
    "refuse_too_large",
]
