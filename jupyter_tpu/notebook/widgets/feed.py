"""A thread that keeps a live widget up to date while a page shows it.

A page reports every 20 s that it shows the widget. A kernel that is running a cell may not receive the report until the
cell finishes: only JupyterLab 4.4 and ipykernel 7 deliver widget messages while a cell runs, and not all of them. But
users watch the widget mainly while a cell runs. Therefore:

- While pages report, the widget is updated at its own interval.
- If an idle kernel gets no report, no page shows the widget, because an idle kernel receives all reports. The thread
  then exits; the next report starts a new thread.
- If a busy kernel gets no report, the updates continue, but slow down to one every 5 s, because a page may still show
  the widget. A tab that is closed during a 5-hour cell causes 3,600 messages of about 1.3 KB in the record.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

# How long a page may be silent. A page reports every 20 s (PULSE_MS in frame.js): two reports may be lost, and the
# third may be 15 s late.
SILENCE_S = 75.0
# Longest interval between two updates. It limits the data that an unseen widget adds to the kernel's record, see above,
# but still shows that the cell is running.
_SLOWEST_S = 5.0
# After this many seconds of silence, send updates every second; after twice this time, every 2 s; and so on.
_SILENCE_PER_PACE = 60.0

PageRequest = Mapping[str, Any]


def update_interval_s(every_s: float, silent_s: float) -> float:
    """Return the seconds between two updates, which increase with the time since a page last reported."""
    return max(every_s, min(_SLOWEST_S, silent_s / _SILENCE_PER_PACE))


class Feed:
    """The thread of one widget, which runs only while needed.

    Args:
        update: a function that performs requests from pages, reads the node and shows the result; its first argument is
            whether a page also requests the history.
        every_s: seconds between two updates while pages report.
        is_kernel_busy: a function that returns whether the kernel is running a cell, which may delay reports from
            pages.
        silence_s: the longest time between two reports from a page.
    """

    def __init__(
        self,
        update: Callable[[bool, list[PageRequest]], None],
        every_s: float,
        is_kernel_busy: Callable[[], bool],
        silence_s: float = SILENCE_S,
    ) -> None:
        self._update = update
        self._every_s = every_s
        self._is_kernel_busy = is_kernel_busy
        self._silence_s = silence_s
        self._changing = threading.Lock()
        self._news = threading.Event()
        self._acts: deque[PageRequest] = deque()
        self._wants_whole = False
        self._is_over = False
        self._reported_at = time.monotonic()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None

    def notify(self, *, whole: bool = False, act: PageRequest | None = None) -> None:
        """Process a report from a page, which may request the history or an action; do nothing after `close`."""
        with self._changing:
            self._reported_at = time.monotonic()
            self._wants_whole = self._wants_whole or whole
            if act is not None:
                self._acts.append(act)
            if whole or act is not None:
                self._news.set()
            if self._thread is None and not self._is_over:
                self._thread = threading.Thread(target=self._run, name="jupyter-tpu-widget", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop the updates; an update in progress may still finish."""
        self._is_over = True
        self._news.set()

    def _run(self) -> None:
        while not self._is_done():
            # Clear the event before taking the requests, so that a request that arrives in between still wakes this
            # thread.
            self._news.clear()
            whole, acts = self._requests()
            self._update(whole, acts)
            self._news.wait(update_interval_s(self._every_s, self._silent_s()))

    def _requests(self) -> tuple[bool, list[PageRequest]]:
        with self._changing:
            whole, acts = self._wants_whole, list(self._acts)
            self._wants_whole = False
            self._acts.clear()
        return whole, acts

    def _is_done(self) -> bool:
        """Stop the thread if the widget is closed or no page shows it; return whether it has stopped."""
        # Query the agent outside the lock, because that takes a while and a page may report in the meantime.
        is_forgotten = self._silent_s() > self._silence_s and not self._is_kernel_busy()
        with self._changing:
            if self._is_over or (is_forgotten and self._silent_s() > self._silence_s):
                self._thread = None
            return self._thread is None

    def _silent_s(self) -> float:
        return time.monotonic() - self._reported_at
