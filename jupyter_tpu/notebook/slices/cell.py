"""A cell that is running on the workers of a slice."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.slices.cluster import ENDED, Cluster
from jupyter_tpu.notebook.slices.collected import Collected, Collector
from jupyter_tpu.notebook.slices.course import Course, Limits, Step
from jupyter_tpu.notebook.slices.folding import CellError, Part, grouped, to_mimebundle
from jupyter_tpu.notebook.slices.publisher import Publisher
from jupyter_tpu.notebook.slices.targets import Target, names_of

EARLIER = "tpu_earlier"
"""An engine's first message about a cell: output that its threads and hooks printed since its last cell, if any."""

ASKS = "tpu_asks"
"""An engine's request for the user's reply to ``input()``."""

ANSWER = "tpu_answer_request"

INTERRUPT = "tpu_interrupt_request"
"""A request that interrupts a cell on an engine.

If the cell has not started, the reply's `state` is `SKIPPED`, and the engine never runs the cell.
"""

SKIPPED = "skipped"

NOTICE = "tpu_notice_request"
"""A request that runs an engine's checkpoint hook, because the node is about to stop.

The reply's `error` is empty on success.
"""

AGENT = "tpu_agent_request"
"""A request that calls a method of an engine's agent; the reply contains the agent's `answer` or an `error`."""

OUTPUT = "tpu_output_request"
"""A request for the end of an engine's newest output that is too long for the notebook."""

_DRAW_EVERY_S = 0.5
# How long to wait for an engine's last message after its reply. The two arrive on different channels, but at about the
# same time.
_LAST_MESSAGE_S = 2.0
_SIGNAL_AFTER_S = 1.0

_INTERRUPTED = CellError(name="KeyboardInterrupt", value="")
_STILL_RUNNING = Text("still running")
_WAS_INTERRUPTED = Text("interrupted")
_SINCE_LAST_CELL = Text("output since the last cell")
_HINT = Text(
    "still running. If the cell uses an array or a collective operation of all workers, it waits for the "
    "other workers forever. Interrupt the cell, then run it on all workers."
)


class RunningCell:
    """A cell on the workers of a slice, from sending it until all workers have finished.

    Methods are called from the main thread, the client's thread and, for interrupts, the control thread, so that errors
    and lost workers are shown while worker 0 itself is computing.

    Args:
        number: the cell's number, which increases with each cell.
        publisher: shows the slice's part of the output.
        own: collects the output of worker 0.

    Attributes:
        when_stuck: called, from any thread, when the cell stops waiting for workers that can't be interrupted.
        why_lost: returns, for lost workers, why they are lost and what to do; called from any thread.
        lost: the other workers that were lost while they ran the cell.
        exited: the other workers on which the cell has called ``exit()``.
    """

    def __init__(
        self, cluster: Cluster, target: Target, number: int, publisher: Publisher, own: Collector, limits: Limits
    ) -> None:
        self.when_stuck: Callable[[], None] = lambda: None
        self.why_lost: Callable[[set[int]], Mapping[int, str]] = lambda workers: dict.fromkeys(workers, "")
        self.lost: set[int] = set()
        self.exited: set[int] = set()
        self.number = number
        self.target = target
        self.others = [each for each in target.workers if each]
        self._cluster = cluster
        self._publisher = publisher
        self._own = own
        self._limits = limits
        self._lock = threading.RLock()
        self._course = Course(target.workers, limits)
        self._live = {each: Collector() for each in self.others}
        self._outputs: dict[int, Collected] = {}
        self._earlier: dict[int, Part] = {}
        self._errors: dict[int, CellError] = {}
        self._interrupted: set[int] = set()  # the other workers that an interrupt of this cell has ended
        self._own_exits = False
        self._asking: set[int] = set()
        self._is_drawing = False
        self._is_drawn = False
        self._drawn_at = time.monotonic()
        self._when_over: Callable[[], None] = lambda: None

    # -- methods for the main thread

    def send(self, execution_count: int) -> None:
        """Send the cell to the other workers, with the number in its prompt, and wait until it has been sent."""
        if self.target.is_partial:
            self._cluster.call_later(self._limits.hint_s, self._hint)
        if not self.others:
            return
        facts = {"cell": self.number, "workers": list(self.target.workers), "execution_count": execution_count}
        metadata = {"tpu_slice": facts}
        sent = threading.Event()

        def send() -> None:
            for worker in self.others:
                self._cluster.send_cell(worker, self.target.code, metadata, self._on_message(worker))
            self._cluster.call(sent.set)

        # In the client's thread, because each message from another thread would wake that thread.
        self._cluster.call(send)
        # Wait until the cell has been sent: otherwise worker 0's code could delay the client's thread for a while.
        sent.wait(1)

    def end_own(self, error: CellError | None, *, exits: bool = False) -> None:
        """Record that worker 0 has finished running the cell, and whether it exits, too: then no worker is missing."""
        with self._lock:
            self._own_exits = exits
            if exits:
                for worker in self.exited & self.lost:
                    del self._errors[worker]
                self.lost -= self.exited
                self.exited.clear()
            self._course.end(0, time.monotonic(), failed=error is not None)
            if error is not None:
                self._errors[0] = error
            for worker in self._asking:
                self._answer(worker, None)
            if error is not None and error.name == "KeyboardInterrupt":
                self.ensure_interrupted()
            self._advance()

    def answer(self, text: str) -> None:
        """Forward the user's reply to ``input()``."""
        for worker in self.others:
            self._answer(worker, text)

    def when_over(self, callback: Callable[[], None]) -> None:
        """Set a function to call once the cell no longer waits for any worker. Any thread may call the function."""
        with self._lock:
            self._when_over = callback
            if self.is_over:
                callback()

    @property
    def is_over(self) -> bool:
        """Whether the cell no longer waits for any worker."""
        return self._course.is_over

    @property
    def running(self) -> set[int]:
        """The workers that are still running the cell."""
        return set(self._course.running)

    @property
    def is_stuck(self) -> bool:
        """Whether workers are still running the cell although they were interrupted a while ago."""
        return self._course.has_given_up and bool(self._course.running)

    def first_error(self) -> CellError | None:
        """Return another worker's error that makes the cell fail, with the names of all workers that have this error.

        Returns None if there is no such error or if worker 0 raised the error itself.
        """
        with self._lock:
            own = self._errors.get(0)
            if own is not None and not own.is_same(_INTERRUPTED):
                return None
            self._explain_losses()
            failed = {each: at for each, at in self._course.failed.items() if each in self._errors and each}
            if not failed:
                return None if own else self._still_running()
            first = min(failed, key=lambda worker: (failed[worker], worker))
            error = self._errors[first]
            if error.is_same(own):
                return None
            if first in self.lost:  # the text names all workers that were lost in this way
                return CellError(name=error.name, value="\n".join((error.value, *error.traceback)))
            same = [worker for worker in failed if error.is_same(self._errors.get(worker))]
            return CellError(name=error.name, value=f"{error.value} ({names_of(same)})".lstrip())

    def _still_running(self) -> CellError | None:
        if not self._course.running:
            return None
        return CellError(name="KeyboardInterrupt", value=str(self.waiting_text()))

    def waiting_text(self) -> Text:
        """Return a text that names the workers that are still running the cell and explains why."""
        return Text("{workers}: {reason}", workers=names_of(self._course.running), reason=self._why_it_waits())

    def draw(self) -> None:
        """Show the other workers' current output."""
        with self._lock:
            self._explain_losses()
            output = self._own.collected()
            own = Part(output=output, error=self._errors.get(0)) if 0 in self.target.workers else None
            parts = {worker: part for worker in self.others if (part := self._part(worker, output)) is not None}
            if self.is_stuck and 0 in self._course.running:  # show worker 0, too
                parts[0] = Part(output=Collector().collected(), state=self._why_it_waits(), is_urgent=True)
            groups = [*grouped(None, self._earlier), *grouped(own, parts)]
            if groups:
                # show worker 0's output first; a cell may have replaced the streams by anything
                for stream in (sys.stdout, sys.stderr):
                    with suppress(Exception):
                        stream.flush()
            self._publisher.show(to_mimebundle(groups))
            self._is_drawn = self.is_over

    # -- methods for any thread

    def interrupt(self) -> None:
        """Interrupt the workers that are running the cell."""
        with self._lock:
            self._course.interrupt(time.monotonic())
            self._interrupt_others()
            self._schedule()

    def ensure_interrupted(self) -> None:
        """Interrupt the workers unless that was done: a second interrupt would end the first one's traceback."""
        with self._lock:
            if not self._course.is_interrupted:
                self.interrupt()

    def lose(self, worker: int) -> None:
        """Record that the process of a worker has exited."""
        with self._lock:
            if worker in self._course.running:
                self.lost.add(worker)
                self._explain_losses()
                self._course.lose(worker, time.monotonic())
                self.draw()
                self._advance()

    # -- methods for the client's thread

    def _on_message(self, worker: int) -> Callable[[str, Mapping[str, Any]], None]:
        def on_message(kind: str, content: Mapping[str, Any]) -> None:
            with self._lock:
                if kind == ENDED:
                    self._end(worker, content)
                elif kind == EARLIER:
                    self._earlier[worker] = Part(output=Collected.from_json(content), state=_SINCE_LAST_CELL)
                    self._draw_soon()
                elif kind == "stream":
                    self._live[worker].write(content["name"], content["text"])
                    self._draw_soon()
                elif kind == "clear_output":
                    self._live[worker].clear(wait=bool(content.get("wait")))
                elif kind == ASKS:
                    self._asking.add(worker)
                    if 0 not in self._course.running:
                        self._answer(worker, None)
                elif kind == "execute_reply" and worker in self._course.running:
                    self._cluster.call_later(_LAST_MESSAGE_S, lambda: self._end_without_message(worker))

        return on_message

    def _end(self, worker: int, content: Mapping[str, Any]) -> None:
        self._outputs[worker] = Collected.from_json(content["output"])
        self._asking.discard(worker)
        error = content["error"]
        if error is not None and worker not in self._errors:
            self._errors[worker] = CellError(
                name=error["name"], value=error["value"], traceback=tuple(error["traceback"])
            )
        if content.get("exits") and not self._own_exits:  # an engine of an earlier version does not say
            self.exited.add(worker)
            if worker not in self._errors:
                self.lost.add(worker)
                self._explain_losses()
        has_failed = worker in self._errors
        if has_failed and self._course.is_interrupted and self._errors[worker].is_same(_INTERRUPTED):
            self._interrupted.add(worker)
        self._course.end(worker, time.monotonic(), failed=has_failed)
        if has_failed and self._course.running:
            self._draw_soon()
        self._advance()

    def _end_without_message(self, worker: int, error: CellError | None = None) -> None:
        """Record that a worker has finished although its last message has not arrived."""
        with self._lock:
            if worker in self._course.running:
                if error is not None:
                    self._errors[worker] = error
                    self._interrupted.add(worker)
                self._course.end(worker, time.monotonic(), failed=error is not None)
                self._advance()

    def _draw_soon(self) -> None:
        """Schedule a redraw of the output, at most two per second. If the cell ends first, the redraw is skipped."""
        if not self._is_drawing:
            self._is_drawing = True
            delay = max(0.0, self._drawn_at + _DRAW_EVERY_S - time.monotonic())
            self._cluster.call_later(delay, self._draw_now)

    def _draw_now(self) -> None:
        with self._lock:
            self._is_drawing = False
            self._drawn_at = time.monotonic()
            if not self.is_over and not self._is_drawn:
                self.draw()

    def _hint(self) -> None:
        with self._lock:
            if self._course.running and not self._is_drawn:
                running = names_of(self._course.running)
                self._publisher.note(Text("{workers}: {reason}", workers=running, reason=_HINT))

    # -- methods that are called with the lock held

    def _explain_losses(self) -> None:
        """Set the errors of lost workers. Why a worker is lost may become known only after its loss."""
        for worker, text in (self.why_lost(self.lost) if self.lost else {}).items():
            first, _, last_output = text.partition("\n")  # a label is one line
            traceback = (last_output,) if last_output else ()
            self._errors[worker] = CellError(name="WorkerLost", value=first, traceback=traceback)

    def _part(self, worker: int, own: Collected) -> Part | None:
        """Return a worker's part, or None while the cell runs and the part does not differ from worker 0's text."""
        error, is_running = self._errors.get(worker), worker in self._course.running
        output = self._outputs.get(worker) or self._live[worker].collected()
        if is_running and self._course.has_given_up:
            return Part(output=output, state=self._why_it_waits(), is_urgent=True)
        if worker in self._interrupted:
            is_known = 0 in self.target.workers and output.digest == own.digest
            return Part(output=Collected() if is_known else output, state=_WAS_INTERRUPTED)
        is_open = is_running or 0 in self._course.running
        if is_open and not error and (output.is_silent or self._is_same_so_far(own.text, output.text)):
            return None
        return Part(output=output, error=error, state=_STILL_RUNNING if is_running else "")

    def _is_same_so_far(self, own: str, other: str) -> bool:
        return own.startswith(other) or bool(own and 0 in self._course.running and other.startswith(own))

    def _why_it_waits(self) -> Text:
        """Return why the workers that are still running could not be interrupted, and what to do."""
        failed = [each for each in self._course.failed if each not in self._course.running]
        if not failed:
            return Text(
                "still running: an interrupt did not end the cell. If the cell does not end, restart the kernel."
            )
        return Text(
            "still running, probably waiting for {failed} in a collective operation, which an interrupt does not "
            "end. To start all workers again, restart the kernel.",
            failed=names_of(failed),
        )

    def _answer(self, worker: int, text: str | None) -> None:
        self._cluster.ask(worker, ANSWER, {"cell": self.number, "text": text})

    def _interrupt_others(self) -> None:
        for worker in self._course.running:
            if worker:
                self._interrupt_other(worker)

    def _interrupt_other(self, worker: int) -> None:
        """Interrupt a worker with a message to its control thread, or with a signal if it does not respond soon."""
        answers: list[str] = []

        def answered(content: Mapping[str, Any]) -> None:
            answers.append(content["state"])
            if content["state"] == SKIPPED:
                self._end_without_message(worker, _INTERRUPTED)

        def signal_it() -> None:
            if not answers and worker in self.running:
                self._cluster.interrupt([worker])

        self._cluster.ask(worker, INTERRUPT, {"cell": self.number}, answered)
        self._cluster.call_later(_SIGNAL_AFTER_S, signal_it)

    def _advance(self) -> None:
        """Interrupt the workers or update the output if this is due. If the cell is over, call the callback."""
        step = self._course.due(time.monotonic())
        if step is Step.INTERRUPT:
            self._interrupt_others()
            if 0 in self._course.running:
                os.kill(os.getpid(), signal.SIGINT)
        elif step is Step.GIVE_UP:
            self.draw()
            self.when_stuck()
        if self.is_over:
            self._when_over()
        else:
            self._schedule()

    def _schedule(self) -> None:
        at = self._course.next_at
        if at is not None and self.others:
            self._cluster.call_later(max(0.0, at - time.monotonic()), self._advance_later)

    def _advance_later(self) -> None:
        with self._lock:
            if not self.is_over:
                self._advance()
