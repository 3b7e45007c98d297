"""Looks at the node again and again for a live widget, in a thread, as long as a page shows the widget.

A page says every 20 s that it shows the widget. A kernel that runs a cell may not hear that before the cell has ended:
only JupyterLab 4.4 and ipykernel 7 hand messages of widgets past a running cell, and not all of these. Yet the cell is
what people watch. So:

- while pages are heard, the widget is fed at its own pace;
- a silence in a kernel that is idle, and so would have heard, means that nobody looks: the thread ends, and the next
  word of a page begins another one;
- a silence in a kernel that is busy says nothing: the feed goes on, but slower the longer it lasts, down to every
  5 s. A tab that was closed over a cell of 5 hours leaves 3,600 messages of about 1.3 KB in the record.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

SILENCE_S = 75.0
_SLOWEST_S = 5.0
_SILENCE_PER_PACE = 60.0

Act = Mapping[str, Any]


def pace_s(every_s: float, silent_s: float) -> float:
    """The time from one look to the next when no page was heard for `silent_s`."""
    return max(every_s, min(_SLOWEST_S, silent_s / _SILENCE_PER_PACE))


class Feed:
    """The thread of one widget.

    Args:
        look: looks at the node and shows what it saw, after performing what the pages asked for. It is told whether a
            page wants the whole picture, with its history.
        is_kernel_busy: whether pages may be unheard.
        silence_s: the longest time from one word of a page to the next.
    """

    def __init__(
        self,
        look: Callable[[bool, list[Act]], None],
        every_s: float,
        is_kernel_busy: Callable[[], bool],
        silence_s: float = SILENCE_S,
    ) -> None:
        self._look = look
        self._every_s = every_s
        self._is_kernel_busy = is_kernel_busy
        self._silence_s = silence_s
        self._changing = threading.Lock()
        self._news = threading.Event()
        self._acts: deque[Act] = deque()
        self._wants_whole = False
        self._is_over = False
        self._heard_at = time.monotonic()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def hear(self, *, whole: bool = False, act: Act | None = None) -> None:
        """A page shows the widget; it may want the whole picture, or something done. Nothing happens after `close`."""
        with self._changing:
            self._heard_at = time.monotonic()
            self._wants_whole = self._wants_whole or whole
            if act is not None:
                self._acts.append(act)
            if whole or act is not None:
                self._news.set()
            if self._thread is None and not self._is_over:
                self._thread = threading.Thread(target=self._run, name="jupyter-tpu-widget", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Look no more. The look that is under way may still end."""
        self._is_over = True
        self._news.set()

    def _run(self) -> None:
        while not self._is_done():
            self._news.clear()
            whole, acts = self._wishes()
            self._look(whole, acts)
            self._news.wait(pace_s(self._every_s, self._silent_s()))

    def _wishes(self) -> tuple[bool, list[Act]]:
        with self._changing:
            whole, acts = self._wants_whole, list(self._acts)
            self._wants_whole = False
            self._acts.clear()
        return whole, acts

    def _is_done(self) -> bool:
        """Asked outside the lock whether the kernel is busy, because that takes a while; a page may speak meanwhile."""
        is_forgotten = self._silent_s() > self._silence_s and not self._is_kernel_busy()
        with self._changing:
            if self._is_over or (is_forgotten and self._silent_s() > self._silence_s):
                self._thread = None
            return self._thread is None

    def _silent_s(self) -> float:
        return time.monotonic() - self._heard_at
