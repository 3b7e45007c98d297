"""Run the cells of a slice on a worker other than worker 0, in an ipyparallel engine."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.notebook.node.agent_call import call_agent
from jupyter_tpu.notebook.slices.cell import AGENT, ANSWER, ASKS, EARLIER, INTERRUPT, NOTICE, OUTPUT, SKIPPED
from jupyter_tpu.notebook.slices.cluster import ENDED, HELLO
from jupyter_tpu.notebook.slices.collected import LIMIT, Collected, Collector, encodable, shortened
from jupyter_tpu.notebook.slices.interrupts import Interrupts
from jupyter_tpu.notebook.slices.recorder import Recorder
from jupyter_tpu.notebook.slices.tracebacks import prepare_tracebacks
from jupyter_tpu.notebook.slices.worker_facts import worker_facts

_MOST_ON_DISK = 1024**3


class Engine:
    """An engine of a slice.

    Args:
        shell: the engine's IPython shell.
        worker: the worker's number.

    Attributes:
        on_notice: runs the checkpoint hook for a notice, and returns the outcome; None if there is no hook.
    """

    def __init__(self, shell: Any, worker: int) -> None:
        self.worker = worker
        self.on_notice: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
        self.count = int(os.environ["TPU_SLICE_WORKERS"])
        self._shell = shell
        self._kernel = shell.kernel
        self._cell: Mapping[str, Any] | None = None
        self._begun = 0
        self._skipped = 0
        self._changing_cell = threading.Lock()
        Interrupts(shell)
        self._answers = Answers()
        self._live_left = 0
        self._is_prepared = False
        self._recorder = Recorder(shell, is_shown_here=False, may_pass=self._may_pass)
        self._output = OutputFile(Path(self._kernel.parent.profile_dir.location) / "output.txt")
        self._execute = _execute_of(self._kernel)
        self._kernel.do_execute = self.do_execute
        for name in ("raw_input", "getpass"):
            setattr(self._kernel, name, self._ask)
        handlers = self._kernel.control_handlers
        handlers[HELLO] = self._answering(self._hello)
        handlers[ANSWER] = self._answering(self._answer)
        handlers[INTERRUPT] = self._answering(self._interrupt)
        handlers[OUTPUT] = self._answering(self._output.end)
        handlers[NOTICE] = self._answering_later(self._run_hook)
        handlers[AGENT] = self._answering_later(self._call_agent)
        for name in ("_publish_status", "_publish_execute_input"):
            setattr(self._kernel, name, self._outside_cells(getattr(self._kernel, name)))
        self._show_only_on_worker_0("tpu")
        _use_plain_progress_bars()

    @property
    def cell_workers(self) -> tuple[int, ...] | None:
        """The workers that run the current cell, or None between cells."""
        cell = self._cell
        return tuple(cell["workers"]) if cell else None

    def showing_for_all(self) -> AbstractContextManager[None]:
        """Return a context that does nothing. A cell in which an engine shows output does not run on worker 0."""
        return nullcontext()

    # -- execution of a cell, in the main thread

    async def do_execute(self, *args: Any, **options: Any) -> Any:
        """Run a cell, then send its whole output and final status to worker 0; replaces the kernel's method."""
        cell = self._cell_in_request()
        if cell is None:
            return await self._execute(*args, **options)
        error: dict[str, Any] | None = _error("KeyboardInterrupt")
        if not self._begin(cell):
            return {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
        # Tracebacks name the cell by its prompt. Worker 0 has also counted the cells that did not run here.
        self._shell.execution_count = max(self._shell.execution_count, cell["execution_count"])
        try:
            reply = await self._execute(*args, **options)
            error = None
            if reply["status"] == "error":
                error = _error(reply["ename"], reply["evalue"], reply["traceback"])
            return reply
        except Exception as failure:  # IPython itself fails, for example because a cell has changed it
            error = _error(type(failure).__name__, str(failure))
            raise
        finally:
            self._leave_cell()
            self._publish_end(error)

    def _begin(self, cell: Mapping[str, Any]) -> bool:
        """Start a cell; return False if it has already been interrupted."""
        earlier = self._record_anew()
        if not earlier.is_silent:
            self._publish(EARLIER, earlier.to_json())
        self._live_left = LIMIT // 2
        with self._changing_cell:
            self._begun = cell["cell"]
            if self._begun <= self._skipped:
                return False
            self._cell = cell
            return True

    def _leave_cell(self) -> None:
        """Mark the cell as finished, so that later interrupts are ignored."""
        with self._changing_cell:
            self._cell = None

    def _publish_end(self, error: dict[str, Any] | None) -> None:
        self._live_left = 0  # until the next cell, output is only recorded
        output = self._record_anew()
        # IPython's `exit()` only makes the process exit after the cell.
        outcome = {"error": error, "exits": bool(self._shell.exit_now)}
        try:
            self._publish(ENDED, {"output": output.to_json(), **outcome})
        except RecursionError:  # the displayed data is nested too deeply for a message
            self._publish(ENDED, {"output": Collected().to_json(), **outcome})

    def _record_anew(self) -> Collected:
        """Return the output recorded so far, and record from the beginning."""
        recorded = self._recorder.collector or Collector()
        self._recorder.begin(Collector(self._output.write))
        output = recorded.collected()
        self._output.begin()
        return output

    def _may_pass(self, text: str) -> bool:
        """Return whether to send this text to worker 0 now. All output is sent again when the cell ends."""
        self._live_left -= len(text)
        return self._live_left > 0

    def _publish(self, kind: str, content: Mapping[str, Any]) -> None:
        kernel = self._kernel
        kernel.session.send(
            kernel.iopub_socket, kind, dict(content), parent=kernel.get_parent("shell"), ident=kernel._topic(kind)
        )

    def _outside_cells(self, publish: Callable[..., None]) -> Callable[..., None]:
        """Don't publish a message in a cell of the slice: worker 0 needs only `ENDED`, and each message costs time."""

        def published(*args: Any, **options: Any) -> None:
            if self._cell_in_request() is None:
                publish(*args, **options)

        return published

    def _cell_in_request(self) -> Mapping[str, Any] | None:
        """Return the facts that worker 0 has sent about the current request, if it is a cell of the slice."""
        facts: Mapping[str, Any] | None = self._kernel.get_parent("shell").get("metadata", {}).get("tpu_slice")
        return facts

    def _ask(self, *_: Any, **__: Any) -> str:
        """Get the user's reply to ``input()``. Only worker 0 can ask the user."""
        __tracebackhide__ = True
        cell = self._cell
        if cell is None or 0 not in cell["workers"]:
            raise EOFError("input() requires worker 0, but this cell does not run there")
        sys.stdout.flush()
        self._publish(ASKS, {})
        answer = self._answers.take(cell["cell"])
        if answer is None:
            raise EOFError("input() gets a reply only if worker 0 asks, too, but worker 0 has ended the cell")
        return answer

    def _show_only_on_worker_0(self, name: str) -> None:
        """Make a line magic do nothing while the cell also runs on worker 0, which shows the same output."""
        magic = self._shell.find_line_magic(name)

        def shown_there(line: str) -> Any:
            return None if 0 in (self.cell_workers or ()) else magic(line)

        if magic is not None:
            shown_there.__doc__ = magic.__doc__
            self._shell.register_magic_function(shown_there, magic_kind="line", magic_name=name)

    # -- requests, in the control thread

    def _answering(self, handle: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Callable[..., Any]:
        async def answering(stream: Any, ident: Any, parent: Any) -> None:
            self._reply(stream, ident, parent, handle(parent["content"]))

        return answering

    def _reply(self, stream: Any, ident: Any, parent: Any, content: Mapping[str, Any]) -> None:
        kind = parent["header"]["msg_type"].replace("_request", "_reply")
        self._kernel.session.send(stream, kind, {"status": "ok", **content}, parent=parent, ident=ident)

    def _answering_later(self, handle: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Callable[..., Any]:
        """Handle requests in another thread, because interrupts must not wait for them."""

        async def answering(stream: Any, ident: Any, parent: Any) -> None:
            loop = asyncio.get_running_loop()

            def run() -> None:
                content = handle(parent["content"])
                loop.call_soon_threadsafe(self._reply, stream, ident, parent, content)

            threading.Thread(target=run, name="jupyter-tpu request", daemon=True).start()

        return answering

    def _run_hook(self, notice: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"error": self.on_notice(notice)["error"] if self.on_notice else ""}

    def _call_agent(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer = call_agent(content["method"], content["params"], patience_s=content["patience_s"])
        except TpuError as error:
            return {"answer": None, "error": error.to_json()}
        return {"answer": answer, "error": None}

    def _hello(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        cell = self._cell
        if not self._is_prepared:  # only now, so that it does not delay the engine's start
            self._is_prepared = True
            prepare_tracebacks(self._shell)
        return {**worker_facts(), "cell": cell["cell"] if cell else None}

    def _interrupt(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._changing_cell:
            number = content["cell"]
            if self._cell is not None and self._cell["cell"] == number:
                os.kill(os.getpid(), signal.SIGINT)
            elif number > self._begun:
                self._skipped = number
                return {"state": SKIPPED}
            return {"state": "begun"}

    def _answer(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        self._answers.put(content["cell"], content["text"])
        return {}


class Answers:
    """Replies to ``input()``, stored by cell because worker 0 may already be running a later cell."""

    def __init__(self) -> None:
        self._given: deque[tuple[int, str | None]] = deque()
        self._has_changed = threading.Condition()

    def put(self, cell: int, text: str | None) -> None:
        """Add the next reply for a cell; None means that there will be no more replies."""
        with self._has_changed:
            self._given.append((cell, text))
            self._has_changed.notify()

    def take(self, cell: int) -> str | None:
        """Wait for the user's next reply to ``input()`` in a cell."""
        with self._has_changed:
            while True:
                while self._given and self._given[0][0] < cell:
                    self._given.popleft()
                if self._given and self._given[0][0] == cell:
                    return self._given.popleft()[1]
                self._has_changed.wait()


class OutputFile:
    """A file for output that is too long for the notebook. It contains the full output of the newest such cell."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None
        self._size = 0

    def begin(self) -> None:
        """Start a cell; its first text replaces the previous cell's text in the file."""
        if self._file is not None:
            with suppress(OSError):  # the disk is full
                self._file.close()
        self._file, self._size = None, 0

    def write(self, text: str) -> None:
        """Add text; if writing fails, for example on a full disk, drop the text without an error."""
        try:
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8", errors="replace")
            if self._size < _MOST_ON_DISK:
                self._file.write(text)
                self._size += len(text)
        except OSError:
            self._size = _MOST_ON_DISK

    def end(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the file's path and last lines."""
        count = int(content["lines"])
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - 200 * count))
                lines = file.read().decode("utf-8", "replace").splitlines()[-count:]
        except OSError:
            lines = []
        return {"path": str(self._path), "lines": lines}


def _error(name: str, value: str = "", traceback: tuple[str, ...] = ()) -> dict[str, Any]:
    lines = [shortened(encodable("\n".join(traceback)))] if traceback else []
    return {"name": encodable(name), "value": shortened(encodable(value)), "traceback": lines}


def _execute_of(kernel: Any) -> Callable[..., Any]:
    """Return a function that runs a cell in the engine, with a fix for cells that use ``await``.

    With ipyparallel 9.2 and ipykernel 7, `shell_channel_thread` is None in an engine, and a cell with a top-level
    ``await`` never gets a reply. The fix makes a thread visible only to ipykernel's method. If the thread were set on
    the kernel itself, the kernel would dispatch messages differently.
    """
    if getattr(kernel, "shell_channel_thread", True) is not None:
        return kernel.do_execute  # type: ignore[no-any-return]
    run_cell: Any = super(type(kernel), type(kernel)).do_execute

    class WithThread:
        shell_channel_thread = SimpleNamespace(parent_thread=threading.main_thread())

        def __getattr__(self, name: str) -> Any:
            return getattr(kernel, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(kernel, name, value)

    seen: Any = WithThread()

    async def execute(*args: Any, **options: Any) -> Any:
        return await run_cell(seen, *args, **options)

    return execute


def _use_plain_progress_bars() -> None:
    """Make ``tqdm.auto`` print text. In an ipykernel, it would use a widget, but an engine has no front end."""
    chooser = ModuleType("tqdm.autonotebook")

    def find(name: str) -> Any:
        if name.startswith("__"):  # a traceback looks for the files of all modules
            raise AttributeError(name)
        return getattr(importlib.import_module("tqdm.std"), name)

    vars(chooser)["__getattr__"] = find
    sys.modules.setdefault(chooser.__name__, chooser)
