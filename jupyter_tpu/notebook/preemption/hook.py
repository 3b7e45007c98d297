"""Runs a kernel's checkpoint hook once for each notice of the agent: in the main thread, or else beside it.

A thread waits for notices on a socket of the kernel's own. It interrupts the main thread by a signal, so that the hook
runs between two steps of whatever runs there, and sees what a cell would see. While the main thread is inside a library
that does not come back to Python, the hook runs in the thread. A library that keeps Python's lock keeps both out.

The signal is SIGURG. Nothing happens where nobody waits for it, so one that comes late or astray ends no process;
ipykernel uses SIGINT and SIGTERM, JAX and libtpu SIGTERM, job systems SIGUSR1 and SIGUSR2, profilers SIGPROF.
"""

from __future__ import annotations

import contextvars
import json
import linecache
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

SIGNAL = signal.SIGURG
FILE_NAME = "<tpu_on_preempt>"
_GRACE_S = 4.0
_PART_FOR_GRACE = 0.2
_LONGEST_NOTICE = 64 * 1024
_LONGEST_ERROR = 300


class Hook:
    """What is to be run, as it was written and as it was compiled, in the cell that gave it.

    Raises:
        SyntaxError: it cannot be compiled.
    """

    def __init__(self, source: str, python: str, namespace: dict[str, Any]) -> None:
        self.source = source
        self._code: CodeType = compile(python, FILE_NAME, "exec", dont_inherit=True)
        self._lines = python.splitlines(keepends=True)
        self._namespace = namespace
        self._cell = contextvars.copy_context()

    def run(self) -> None:
        """Run it here; raises whatever it raises."""
        linecache.cache[FILE_NAME] = (sum(map(len, self._lines)), None, self._lines, FILE_NAME)
        exec(self._code, self._namespace)

    def run_in_a_cell(self) -> None:
        """The same; what it prints belongs to the cell that runs, or to the one that gave it while none does."""
        if getattr(sys.stdout, "parent_header", True):
            self.run()
        else:
            self._cell.copy().run(self.run)


class Run:
    """One run of a hook, whoever comes first."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._claim = threading.Lock()
        self.has_begun = threading.Event()
        self.has_ended = threading.Event()
        self.seconds = 0.0
        self.error = ""

    def perform(self) -> None:
        """Run the hook unless it was begun elsewhere. An error in it is shown and kept, never raised."""
        if not self._claim.acquire(blocking=False):
            return
        self.has_begun.set()
        begun = time.monotonic()
        try:
            self._hook.run_in_a_cell()
        except BaseException as error:  # noqa: BLE001 - it ends neither the cell that it interrupts nor the thread
            self.error = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_ERROR]
            sys.stderr.write(_shown(error))
        finally:
            self.seconds = time.monotonic() - begun
            sys.stdout.flush()
            sys.stderr.flush()
            self.has_ended.set()

    def to_json(self) -> dict[str, Any]:
        return {"status": "failed" if self.error else "ran", "seconds": self.seconds, "error": self.error}


class Notified:
    """Waits for notices between `begin` and `end`; `report` is called in its thread with the end of each run."""

    def __init__(self, path: Path, hook: Hook, report: Callable[[dict[str, Any]], None]) -> None:
        self.hook = hook
        self._path = path
        self._report = report
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._runs: dict[str, Run] = {}
        self._newest: Run | None = None
        self._before: Any = None

    def begin(self) -> None:
        """Raises OSError: the socket cannot be made."""
        self._path.unlink(missing_ok=True)
        self._socket.bind(str(self._path))
        self._hear_signal()
        threading.Thread(target=self._wait, name="jupyter-tpu notices", daemon=True).start()

    def end(self) -> None:
        """Take no notice any more."""
        self._path.unlink(missing_ok=True)
        self._socket.shutdown(socket.SHUT_RDWR)
        if _is_in_main_thread() and signal.getsignal(SIGNAL) == self._interrupt:
            signal.signal(SIGNAL, self._before or signal.SIG_DFL)

    def _hear_signal(self) -> None:
        if _is_in_main_thread():
            self._before = signal.signal(SIGNAL, self._interrupt)
            signal.siginterrupt(SIGNAL, False)  # what waits in a library waits on

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._newest is not None:
            self._newest.perform()
        if callable(self._before):
            self._before(number, frame)

    def _wait(self) -> None:
        with self._socket:
            while words := self._socket.recv(_LONGEST_NOTICE):
                self._take(json.loads(words))

    def _take(self, notice: Mapping[str, Any]) -> None:
        """A notice may be given again by an agent that was started anew."""
        notice_id, reason = notice["notice_id"], notice["reason"]
        known = self._runs.get(notice_id)
        run = known or self._runs.setdefault(notice_id, Run(self.hook))
        if known is None:
            self._have_run(run, min(_GRACE_S, _PART_FOR_GRACE * notice["ends_in_s"]))
        told = {"notice_id": notice_id, "reason": reason, "is_repeated": known is not None}
        self._report({**told, **run.to_json()})

    def _have_run(self, run: Run, grace_s: float) -> None:
        self._newest = run
        signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
        if not run.has_begun.wait(grace_s):
            run.perform()
        run.has_ended.wait()


def _is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _shown(error: BaseException) -> str:
    """The traceback from the hook on, without our own frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != FILE_NAME:
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    return f"The checkpoint hook failed.\n{''.join(lines)}"
