"""Which signals end a process of the emulator in order: its workers go, and so does a folder that is its own."""

from __future__ import annotations

import asyncio
import signal


def told_to_stop() -> asyncio.Event:
    """Set by SIGTERM, by SIGINT, and by SIGHUP (the terminal was closed) unless the process was started with nohup."""
    event = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event
