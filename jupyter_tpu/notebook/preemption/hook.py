"""Run a kernel's checkpoint hook once per notice from the agent, if possible in the main thread.

A thread waits for notices on the kernel's own socket. It interrupts the main thread with a signal, so that the hook
runs between two Python instructions of the running cell and can access the cell's variables. If the main thread is
inside a library call that takes too long, the hook runs in the waiting thread instead. A library that holds the GIL
blocks both threads.

The signal is SIGURG. Its default action is to do nothing, so a stray or late signal kills no process. Other signals are
in use: ipykernel uses SIGINT and SIGTERM, JAX and libtpu SIGTERM, job systems SIGUSR1 and SIGUSR2, profilers SIGPROF.
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
# How long the main thread may take to start the hook before the listener thread runs it: enough for a typical training
# step, but only a small part of the hook's maximum of 25 s (`agent.preemption.notices.HOOK_S`).
_GRACE_S = 4.0
# If little time is left, wait for the main thread for at most this share of it.
_PART_FOR_GRACE = 0.2
# Bytes read of one datagram; a notice is a small JSON object.
_LONGEST_NOTICE = 64 * 1024
# Characters of the error to send to the agent; the whole traceback is in the cell's output.
_LONGEST_ERROR = 300


class Hook:
    """The user's code: its source, its compiled form, and the context of the cell that defined it.

    Raises:
        SyntaxError: the code does not compile.
    """

    def __init__(self, source: str, python: str, namespace: dict[str, Any]) -> None:
        self.source = source
        self._code: CodeType = compile(python, FILE_NAME, "exec", dont_inherit=True)
        self._lines = python.splitlines(keepends=True)
        self._namespace = namespace
        self._cell = contextvars.copy_context()

    def run(self) -> None:
        """Run the code in this thread. Exceptions in the code are not caught."""
        # Tracebacks read the source from this cache. Set it each time, because linecache may have dropped it.
        linecache.cache[FILE_NAME] = (sum(map(len, self._lines)), None, self._lines, FILE_NAME)
        exec(self._code, self._namespace)

    def run_in_cell(self) -> None:
        """Run the code. Its output appears in the running cell or, between cells, in the cell that defined the hook."""
        # ipykernel's stdout has an empty parent header between cells; other streams have no parent header.
        if getattr(sys.stdout, "parent_header", True):
            self.run()
        else:
            self._cell.copy().run(self.run)


class HookRun:
    """One run of a hook. The main thread and the thread that waits for notices both try to start it; one succeeds."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._claim = threading.Lock()
        self.has_begun = threading.Event()
        self.has_ended = threading.Event()
        self.seconds = 0.0
        self.error = ""

    def perform(self) -> None:
        """Run the hook unless another thread has already started it. Its errors are shown and stored, never raised."""
        if not self._claim.acquire(blocking=False):
            return
        self.has_begun.set()
        begun = time.monotonic()
        try:
            self._hook.run_in_cell()
        except BaseException as error:  # noqa: BLE001 - it ends neither the cell that it interrupts nor the thread
            self.error = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_ERROR]
            sys.stderr.write(_shown(error))
        finally:
            self.seconds = time.monotonic() - begun
            sys.stdout.flush()
            sys.stderr.flush()
            self.has_ended.set()


Forward = Callable[[Mapping[str, Any]], Callable[[], str]]
"""Sends a notice to a slice's other workers; returns a function that waits for their hooks and returns their errors."""


def to_nobody(_: Mapping[str, Any]) -> Callable[[], str]:
    """Forward a notice to no other worker."""
    return lambda: ""


class NoticeListener:
    """A listener that runs the user's pre-emption hook once per notice, and calls `report` with the outcome.

    Args:
        path: the socket on which a thread waits for notices between `start` and `stop`; None on a worker that gets
            its notices from worker 0 through `handle`.
        forward: sends notices to the other workers.
    """

    def __init__(
        self,
        path: Path | None,
        hook: Hook,
        report: Callable[[dict[str, Any]], None],
        forward: Forward = to_nobody,
    ) -> None:
        self.hook = hook
        self._path = path
        self._report = report
        self._forward = forward
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if path else None
        self._runs: dict[str, HookRun] = {}
        self._newest: HookRun | None = None
        self._before: Any = None

    def start(self) -> None:
        """Start waiting; raises OSError if the socket can't be created."""
        if self._path and self._socket:
            self._path.unlink(missing_ok=True)
            self._socket.bind(str(self._path))
        self._catch_signal()
        if self._socket:
            threading.Thread(target=self._wait, args=(self._socket,), name="jupyter-tpu notices", daemon=True).start()

    def stop(self) -> None:
        """Stop waiting and restore the previous signal handler."""
        if self._path and self._socket:
            self._path.unlink(missing_ok=True)
            # shutdown() wakes the thread that waits in recv(); close() alone would not.
            self._socket.shutdown(socket.SHUT_RDWR)
        if _is_in_main_thread() and signal.getsignal(SIGNAL) == self._interrupt:
            signal.signal(SIGNAL, self._before or signal.SIG_DFL)

    def _catch_signal(self) -> None:
        # Python allows signal handlers only in the main thread; otherwise the hook always runs in the waiting thread.
        if _is_in_main_thread():
            self._before = signal.signal(SIGNAL, self._interrupt)
            signal.siginterrupt(SIGNAL, False)  # makes libraries' system calls restart instead of failing with EINTR

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._newest is not None:
            self._newest.perform()
        if callable(self._before):
            self._before(number, frame)

    def _wait(self, listening: socket.socket) -> None:
        with listening:
            while datagram := listening.recv(_LONGEST_NOTICE):
                self.handle(json.loads(datagram))

    def handle(self, notice: Mapping[str, Any]) -> dict[str, Any]:
        """Run the hook here and on the other workers, unless it has run for this notice; return the outcome."""
        notice_id, reason = notice["notice_id"], notice["reason"]
        errors_elsewhere = self._forward(notice)
        # A restarted agent sends its notices again. If the hook has already run, only repeat the report.
        known = self._runs.get(notice_id)
        run = known or self._runs.setdefault(notice_id, HookRun(self.hook))
        if known is None:
            self._run_hook(run, min(_GRACE_S, _PART_FOR_GRACE * notice["ends_in_s"]))
        run.has_ended.wait()
        errors = "; ".join(filter(None, (run.error, errors_elsewhere())))
        outcome = {"status": "failed" if errors else "ran", "seconds": run.seconds, "error": errors}
        self._report({"notice_id": notice_id, "reason": reason, "is_repeated": known is not None, **outcome})
        return outcome

    def _run_hook(self, run: HookRun, grace_s: float) -> None:
        self._newest = run
        # Try the main thread first, because only there does the hook see a consistent state of the cell.
        signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
        if not run.has_begun.wait(grace_s):
            run.perform()


def _is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _shown(error: BaseException) -> str:
    """Return the traceback starting with the hook's own code, without jupyter_tpu's frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != FILE_NAME:
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames)
    return f"The checkpoint hook failed.\n{''.join(lines)}"
