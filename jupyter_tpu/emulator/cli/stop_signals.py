"""The signals that make an emulator process stop its workers, delete its temporary folder and exit."""

from __future__ import annotations

import asyncio
import signal


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP set.

    SIGHUP (the terminal was closed) is ignored if the process was started with nohup.
    """
    event = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event
