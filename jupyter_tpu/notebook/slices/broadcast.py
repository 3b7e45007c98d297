"""Run each cell of worker 0's kernel on all workers of its slice."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import BadInput, Text, WorkerUnreachable, error_from_json
from jupyter_tpu.i18n import shown
from jupyter_tpu.notebook.slices import NOTE_VARIABLE
from jupyter_tpu.notebook.slices.cell import AGENT, NOTICE, OUTPUT, RunningCell
from jupyter_tpu.notebook.slices.cluster import Cluster
from jupyter_tpu.notebook.slices.collected import Collector
from jupyter_tpu.notebook.slices.course import Limits
from jupyter_tpu.notebook.slices.folding import CellError
from jupyter_tpu.notebook.slices.interrupts import Interrupts
from jupyter_tpu.notebook.slices.publisher import Publisher
from jupyter_tpu.notebook.slices.recorder import Recorder
from jupyter_tpu.notebook.slices.refusals import Refusals
from jupyter_tpu.notebook.slices.targets import Target, names_of, parse_cell
from jupyter_tpu.notebook.slices.tracebacks import prepare_tracebacks
from jupyter_tpu.notebook.slices.worker_facts import difference, worker_facts

GRACE_VARIABLE = "JUPYTER_TPU_GRACE_S"
"""The variable with the number of seconds that the other workers may continue after one worker has failed."""

LOST_VARIABLE = "JUPYTER_TPU_LOST_WORKER_S"
"""The variable with the seconds until the kernel exits if worker 0 hangs after a worker was lost; 0 means never."""

_LOST_S = 10.0
# How long worker 0's own exit handlers may run if it can't exit because of other workers.
_EXITS_S = 2.0
# How long the kernel's last messages may take to the agent before the kernel exits; nothing reports their arrival.
_LAST_MESSAGES_S = 1.0
# How long a cell waits at its end until the agent knows how a worker was lost; a client must tell it.
_EXPLAINED_WITHIN_S = 5.0
_JOIN_S = 180.0
_SLOW_S = 10.0
_LOOK_EVERY_S = 0.5
# Extra time for an engine's response, in addition to its agent's time limit.
_ENGINE_ANSWERS_S = 2.0


class Slice:
    """The slice of this kernel, which runs on worker 0.

    Args:
        shell: the kernel's IPython shell.
        file: see `FILE_VARIABLE`.
    """

    def __init__(self, shell: Any, file: str) -> None:
        facts = json.loads(Path(file).read_text())
        self.count: int = facts["workers"]
        self.joined: dict[int, Mapping[str, Any]] = {}
        self.lost: set[int] = set()
        self.cell: RunningCell | None = None
        self._exited: set[int] = set()  # lost because a cell has called ``exit()``
        self.cluster = Cluster(range(1, self.count), self._on_joined, self._on_lost)
        self._shell = shell
        self._kernel = shell.kernel
        self._target: Target | None = None
        self._failure: Text | None = None
        self._state_file = Path(facts.get("state_file", ""))
        self._number = 0
        self._has_compared = False
        self._limits = Limits(grace_s=_seconds(GRACE_VARIABLE, Limits().grace_s))
        self._recorder = Recorder(shell, is_shown_here=True)
        self._interrupts = Interrupts(shell)
        self._changed: Callable[[], None] = lambda: None
        self._execute = self._kernel.do_execute
        self._wrap_kernel()
        self._refusals = Refusals(self._kernel, self._why_stuck)
        connecting = threading.Thread(target=self._connect, args=(Path(facts["client_file"]),), daemon=True)
        connecting.start()

    @property
    def running(self) -> set[int]:
        """The workers that are running a cell."""
        return set() if self.cell is None else self.cell.running

    @property
    def cell_workers(self) -> tuple[int, ...] | None:
        """The workers that run the current cell of this worker, or None between cells."""
        return self._target.workers if self._target else None

    def showing_for_all(self) -> AbstractContextManager[None]:
        """Return a context manager; output inside it is not compared with the other workers' output."""
        return self._recorder.paused()

    def output_end(self, worker: int, lines: int, patience_s: float) -> Mapping[str, Any] | None:
        """Return the path and last `lines` lines of a worker's newest long output; None if it doesn't respond."""
        return self._ask_all(OUTPUT, {worker: {"lines": lines}})(patience_s).get(worker)

    def call_agent(self, worker: int, method: str, params: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
        """Call a method of another worker's agent through its engine.

        Raises:
            TpuError: the agent returned an error, or there was no response within `patience_s` seconds.
        """
        request = {"method": method, "params": dict(params), "patience_s": patience_s}
        reply = self._ask_all(AGENT, {worker: request})(patience_s + _ENGINE_ANSWERS_S).get(worker)
        if reply is None:
            raise WorkerUnreachable(Text("Worker {worker} does not respond.", worker=worker))
        if reply["error"] is not None:
            raise error_from_json(reply["error"])
        return dict(reply["answer"])

    def forward_notice(self, notice: Mapping[str, Any]) -> Callable[[], str]:
        """Run the other workers' checkpoint hooks; return a function that waits for them and returns their errors."""
        wait = self._ask_all(NOTICE, dict.fromkeys(self.present, notice))

        def errors() -> str:
            failed = {worker: reply["error"] for worker, reply in wait(notice["ends_in_s"]).items() if reply["error"]}
            return "; ".join(f"{names_of([worker])}: {failed[worker]}" for worker in sorted(failed))

        return errors

    @property
    def present(self) -> list[int]:
        """The other workers that have joined and are not lost."""
        return sorted(set(self.joined) - self.lost)

    def _ask_all(
        self, kind: str, requests: Mapping[int, Mapping[str, Any]]
    ) -> Callable[[float], dict[int, Mapping[str, Any]]]:
        """Send requests to other workers; return a function that waits for replies and returns those that came."""
        replies: dict[int, Mapping[str, Any]] = {}
        is_complete = threading.Event()

        def take(worker: int, content: Mapping[str, Any]) -> None:
            replies[worker] = content
            if len(replies) == len(requests):
                is_complete.set()

        for worker, content in requests.items():
            self.cluster.ask(worker, kind, content, partial(take, worker))

        def wait(seconds: float) -> dict[int, Mapping[str, Any]]:
            if requests:
                is_complete.wait(seconds)
            return dict(replies)

        return wait

    def _wrap_kernel(self) -> None:
        kernel = self._kernel
        kernel.do_execute = self.do_execute
        self._precede("interrupt_request", self._interrupt_others)
        self._precede("shutdown_request", self._end_all)
        for name in ("raw_input", "getpass"):
            setattr(kernel, name, self._asking(getattr(kernel, name)))

    def _precede(self, request: str, act: Callable[[], None]) -> None:
        """Call `act` before each control request of this type is handled, even while worker 0 is running C++ code."""
        handle = self._kernel.control_handlers[request]

        async def act_and_handle(*args: Any) -> None:
            act()
            answered = handle(*args)
            if inspect.isawaitable(answered):
                await answered

        self._kernel.control_handlers[request] = act_and_handle

    def _interrupt_others(self) -> None:
        if self.cell is not None:
            self.cell.interrupt()

    def _end_all(self) -> None:
        """Shut down the other workers, too, because JAX does not let a process exit before all others do."""
        is_stuck = self.cell is not None and self.cell.is_stuck
        if self.lost or is_stuck:  # some workers can't shut down
            self.cluster.call_later(_EXITS_S, lambda: os._exit(0))
            return
        for worker in self.joined:
            self.cluster.ask(worker, "shutdown_request", {"restart": False})

    def _asking(self, ask: Callable[..., str]) -> Callable[..., str]:
        def ask_and_forward(*args: Any, **options: Any) -> str:
            text = ask(*args, **options)
            if self.cell is not None:
                self.cell.answer(text)
            return text

        return ask_and_forward

    # -- search for the engines, in other threads

    def _connect(self, file: Path) -> None:
        try:
            self.cluster.connect(file)
            prepare_tracebacks(self._shell)
        except ImportError as error:
            self._failure = Text("A slice needs the package ipyparallel on worker 0: {reason}", reason=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next cell must report it
            self._failure = Text("The other workers can't be reached: {reason}", reason=repr(error))
        self._changed()
        while self._missing({*range(1, self.count)}):
            # The controller does not notice the exit of an engine that has not joined.
            for worker in self._losses().keys() - self.joined.keys() - self.lost:
                self._on_lost(worker)
            time.sleep(_LOOK_EVERY_S)  # there is no event for a changed file

    def _losses(self) -> dict[int, str]:
        """Return how engines have exited, as far as a client has told the agent."""
        try:
            losses = json.loads(self._state_file.read_text(encoding="utf-8")).get("losses", {})
        except (OSError, ValueError):
            return {}
        return {int(worker): message for worker, message in losses.items()}

    def _on_joined(self, worker: int, facts: Mapping[str, Any]) -> None:
        self.joined[worker] = facts
        self._changed()

    def _on_lost(self, worker: int) -> None:
        self.lost.add(worker)
        cell = self.cell
        if cell is not None:
            cell.lose(worker)
            limit = _seconds(LOST_VARIABLE, _LOST_S)
            if limit:
                self.cluster.call_later(limit, lambda: self._end_if_stuck(cell, worker))
        self._changed()

    def _end_if_stuck(self, cell: RunningCell, worker: int) -> None:
        """Kill the kernel if its main thread hangs in a cell: interrupts can't stop a collective operation."""
        if 0 in cell.running:
            reason = Text(
                "{worker} is lost, and worker 0 waits for it in a collective operation that can't be interrupted. The"
                " kernel will exit; then all workers can restart together.",
                worker=names_of([worker]),
            )
            self._refusals.fail_all(CellError(name="WorkerLost", value=shown(reason)))
            os.write(2, f"{reason}\n".encode())
            self.cluster.call_later(_LAST_MESSAGES_S, lambda: os._exit(1))

    # -- execution of a cell, in the main thread

    async def do_execute(self, code: str, silent: bool, *args: Any, **options: Any) -> Any:
        """Run a cell on its workers; replaces the kernel's own method."""
        is_subshell = threading.current_thread() is not threading.main_thread()
        if silent or is_subshell:
            return await self._execute(code, silent, *args, **options)
        publisher = Publisher(self._kernel)
        try:
            target = parse_cell(code, self.count)
        except BadInput as error:
            return self._refuse(publisher, "BadInput", Text("{reason} {hint}", reason=error.message, hint=error.hint))
        if target.workers != (0,):
            reason = await self._reason_not_to_run(target, publisher)
            if reason is not None:
                return self._refuse(publisher, *reason)
        return await self._run(target, publisher, silent, *args, **options)

    async def _run(self, target: Target, publisher: Publisher, *args: Any, **options: Any) -> Any:
        self._number += 1
        own = Collector()
        cell = RunningCell(self.cluster, target, self._number, publisher, own, self._limits)
        cell.why_lost = self._why_lost
        if cell.others:
            self.cell = cell
            cell.when_stuck = self._refusals.refuse_waiting
        cell.send(self._shell.execution_count)
        for worker in self.lost.intersection(cell.others):  # lost since the cell was checked
            cell.lose(worker)
        self._recorder.begin(own)
        self._target = target
        try:
            reply = await self._execute(target.code if 0 in target.workers else "", *args, **options)
        except KeyboardInterrupt:  # the interrupt arrived when none of the kernel's own handlers was active
            reply = self._refuse(publisher, "KeyboardInterrupt", "")
        except Exception as failure:  # noqa: BLE001 - IPython itself fails, for example because a cell has changed it
            reply = self._refuse(publisher, type(failure).__name__, str(failure))
        self._target = None
        cell.end_own(_error_of(reply), exits=bool(self._shell.exit_now))
        while not cell.is_over:
            if self._interrupts.have_arrived:
                cell.ensure_interrupted()
            await self._until_changed(cell.when_over, cell.interrupt)
        self._recorder.end()
        self._exited |= cell.exited
        await self._until_explained(cell.lost - cell.exited)
        if cell.others:
            cell.draw()
        for worker in cell.exited:  # refuse the next cell even if it arrives before the process has ended
            self._on_lost(worker)
        error = cell.first_error()
        return reply if error is None else self._refuse(publisher, error.name, error.value, reply)

    async def _reason_not_to_run(self, target: Target, publisher: Publisher) -> tuple[str, Text | str] | None:
        """Wait until the workers have joined; if the cell can't run, return the error's class name and text."""
        needed = {each for each in target.workers if each}
        interrupted: list[bool] = []
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while missing := self._missing(needed):
            text = self._missing_text(missing, loop.time() - begin)
            publisher.show({"text/plain": shown(text), "text/html": f"<small>{shown(text)}</small>"})

            def listen(changed: Callable[[], None], seen: set[int] = missing) -> None:
                self._changed = changed
                if self._missing(needed) != seen:  # the missing workers have changed in the meantime
                    changed()

            await self._until_changed(listen, lambda: interrupted.append(True), _SLOW_S)
            if interrupted or self._interrupts.have_arrived:
                return "KeyboardInterrupt", text
            if loop.time() > begin + _JOIN_S:
                return "WorkersMissing", self._missing_text(missing, _JOIN_S)
        publisher.clear()
        self._report_differences(publisher)
        return self._problem()

    def _missing(self, needed: set[int]) -> set[int]:
        """Return the workers to wait for."""
        return set() if self.lost or self._failure is not None else needed - set(self.joined)

    def _missing_text(self, missing: set[int], waited_s: float) -> Text:
        text = Text(
            "{count} of {all} workers are ready; waiting for {workers}.",
            count=self.count - len(missing),
            all=self.count,
            workers=names_of(missing),
        )
        if waited_s < _SLOW_S:
            return text
        if waited_s < _JOIN_S or not self.cluster.address:
            return Text("{text} Still starting: this may take a few minutes.", text=text)
        return Text(
            "{text} Restart the kernel. If it happens again, check that the firewall rules of the node's VPC network "
            "let the workers connect to {address}.",
            text=text,
            address=self.cluster.address,
        )

    def _report_differences(self, publisher: Publisher) -> None:
        """Show the kernel's note and the workers whose package versions differ from worker 0's. Do this only once."""
        if self._has_compared:
            return
        self._has_compared = True
        if note := os.environ.get(NOTE_VARIABLE, ""):
            publisher.note(Text(note))
        own = worker_facts()
        for worker, facts in sorted(self.joined.items()):
            versions = difference(own, facts)
            if versions:
                text = Text("{worker} differs from worker 0: {versions}", worker=names_of([worker]), versions=versions)
                publisher.note(text)

    def _problem(self) -> tuple[str, Text | str] | None:
        if self._failure is not None:
            return "WorkersMissing", self._failure
        lost = self.lost | self._losses().keys()  # the agent may know of a loss before the controller does
        if lost:
            texts = self._why_lost(lost)
            return "WorkerLost", "\n".join(dict.fromkeys(texts[worker] for worker in sorted(lost)))
        if self.cell is not None and self.cell.running:
            return "WorkerBusy", self.cell.waiting_text()
        return None

    def _why_lost(self, workers: set[int]) -> dict[int, str]:
        """Return why workers are lost and what to do, by worker; one text names all that are lost for one reason."""
        known = self._losses()
        exited = workers & (self._exited | (self.cell.exited if self.cell else set()))
        unknown = workers - exited - known.keys()
        texts = {worker: known[worker] for worker in workers - exited - unknown}
        if exited:
            text = Text(
                "The process of {workers} ended, because a cell called exit(). Restart the kernel.",
                workers=names_of(exited),
            )
            texts |= dict.fromkeys(exited, shown(text))
        if unknown:
            text = Text(
                "The process of {workers} ended or does not respond. Restart the kernel.", workers=names_of(unknown)
            )
            texts |= dict.fromkeys(unknown, shown(text))
        return texts

    async def _until_explained(self, lost: set[int]) -> None:
        """Wait a moment until the agent knows how workers were lost; without an agent, return at once."""
        until = time.monotonic() + _EXPLAINED_WITHIN_S
        while self._state_file.is_file() and lost - self._losses().keys() and time.monotonic() < until:  # noqa: ASYNC110 - a file
            await asyncio.sleep(_LOOK_EVERY_S / 5)

    def _why_stuck(self) -> CellError | None:
        """Return the error for cells that can't run because worker 0 hangs, or None. Can be called from any thread."""
        cell = self.cell
        if cell is None or not (cell.is_stuck and 0 in cell.running):
            return None
        return CellError(name="WorkerBusy", value=shown(cell.waiting_text()))

    async def _until_changed(
        self,
        listen: Callable[[Callable[[], None]], None],
        interrupted: Callable[[], None],
        timeout: float | None = None,
    ) -> None:
        """Wait until the callback given to `listen` is called, SIGINT arrives, or `timeout` seconds have passed."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        waiting = asyncio.ensure_future(asyncio.wait_for(changed.wait(), timeout))
        with self._kernel._cancel_on_sigint(waiting):
            listen(lambda: _wake(loop, changed))
            try:
                await waiting
            except asyncio.TimeoutError:
                return
            except asyncio.CancelledError:
                interrupted()

    def _refuse(
        self, publisher: Publisher, name: str, text: Text | str, reply: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Fail the cell with a reason; `reply` is the reply of worker 0 if it ran the cell."""
        error = CellError(name=name, value=shown(text))
        publisher.fail(error)
        reply = reply or {
            "execution_count": self._shell.execution_count - 1,
            "user_expressions": {},
            "payload": [],
        }
        return {
            **reply,
            "status": "error",
            "ename": error.name,
            "evalue": error.value,
            "traceback": [str(error)],
        }


def _error_of(reply: Mapping[str, Any]) -> CellError | None:
    if reply["status"] != "error":
        return None
    return CellError(name=reply["ename"], value=reply["evalue"], traceback=tuple(reply["traceback"]))


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set the event from any thread."""
    loop.call_soon_threadsafe(event.set)


def _seconds(variable: str, default: float) -> float:
    try:
        return float(os.environ.get(variable, ""))
    except ValueError:
        return default
