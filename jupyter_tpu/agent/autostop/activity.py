"""Track activity on this worker: the last execution, chip use, output and user action.

Times are on the boot clock, which can't be set. `ActivityWatch.to_json` passes them to the next agent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jupyter_tpu.agent.autostop.chip_activity import Chips, ChipUse
from jupyter_tpu.agent.clock import this_moment
from jupyter_tpu.agent.devices.holders import Kernels as Notebooks
from jupyter_tpu.agent.kernels.kernel import Kernel
from jupyter_tpu.agent.kernels.kernels import Kernels
from jupyter_tpu.agent.kernels.notebooks import name_of
from jupyter_tpu.agent.terminals.terminal import Terminal
from jupyter_tpu.agent.terminals.terminals import Terminals
from jupyter_tpu.autostop import Activity, Moment, Source, moment_from_json

if TYPE_CHECKING:
    from jupyter_tpu.agent.preemption.notices import Notices

# A CPU rate can't be computed from two observations that are closer together than this. Must be shorter than the
# guard's shortest check interval (0.5 s).
_FRESH_S = 0.4
# How long a kernel counts as active after an output, so that a training run that prints only occasionally does not look
# idle in between.
_OUTPUT_S = 60.0
# Characters to show of a command in a terminal.
_COMMAND_LENGTH = 60


class ActivityWatch:
    """The sources of activity, each with the time when it was last active.

    Args:
        pages: returns the number of pages and clients that have one of this worker's kernels or terminals open.
        notebooks: returns the notebook of each process that runs cells.
    """

    def __init__(
        self,
        kernels: Kernels,
        terminals: Terminals,
        notices: Notices,
        pages: Callable[[], int],
        notebooks: Callable[[], Notebooks],
    ) -> None:
        self._kernels = kernels
        self._terminals = terminals
        self._notices = notices
        self._pages = pages
        self._hooks_before = 0
        self._chips = Chips(os.environ, notebooks)
        self._measuring = asyncio.Lock()
        self._use = ChipUse("unknown", "no data yet")
        self._used_at = -_FRESH_S
        self._last: dict[str, Moment] = {}
        self._asked: dict[str, int] = {}
        self._typed: dict[str, int] = {}
        self._outputs: dict[str, int] | None = None
        self._speakers = ""

    def note_human_act(self) -> None:
        """Record a user action other than running a cell, such as interrupting a kernel or extending the node."""
        self._last["human"] = this_moment()

    async def observe(self) -> Activity:
        """Check all sources of activity."""
        use = await self._chip_use()
        kernels, terminals = self._kernels.all(), self._terminals.running()
        # A command in a terminal counts as an execution, but not the shell itself. So does a process that has the chips
        # open and uses the CPU, such as a compiler.
        cells, commands = [kernel for kernel in kernels if kernel.is_executing], [each.command for each in terminals]
        running = _running_text(cells) or _commands_text(commands) or use.working
        pages, now = self._pages(), this_moment()
        self._note_requests(kernels, now)
        self._note_inputs(terminals, now)
        spoken = self._note_outputs([*kernels, *terminals], now)
        found = {
            "execution": running,
            "accelerator": use.state == "active",
            "connection": pages,
            "cpu": use.cpu == "active",
        }
        self._last |= {name: now for name, is_active in found.items() if is_active}
        opened = f"{pages} {'page or client has' if pages == 1 else 'pages or clients have'} a kernel or terminal open"
        return Activity(
            execution=self._source("execution", "active" if running else "quiet", running, now),
            accelerator=self._source("accelerator", use.state, use.detail, now),
            human=self._source("human", "quiet", "", now),
            output=self._source("output", "active" if running and spoken else "quiet", spoken, now),
            connection=self._source("connection", "active" if pages else "quiet", opened if pages else "", now),
            cpu=self._source("cpu", use.cpu, _CPU_TEXT.get(use.cpu, ""), now) if use.cpu else None,
        )

    async def _chip_use(self) -> ChipUse:
        """Measure chip use, or return the last result if it is too recent for a comparison of CPU times.

        While checkpoint hooks run, return the last result, so that their own chip use doesn't keep the node running.
        """
        async with self._measuring:
            if this_moment().steady - self._used_at >= _FRESH_S and not self._notices.are_open:
                use = await asyncio.to_thread(self._chips.measure)
                # Hooks that started in the meantime may have used the chips, which does not count as activity.
                if self._hooks_before == self._notices.notified:
                    self._use = use
                self._hooks_before, self._used_at = self._notices.notified, this_moment().steady
            return self._use

    def _note_requests(self, kernels: Iterable[Kernel], now: Moment) -> None:
        """Record new cells and ``input()`` replies as user actions and executions."""
        asked = {kernel.kernel_id: kernel.user_requests for kernel in kernels}
        if any(count > self._asked.get(kernel_id, 0) for kernel_id, count in asked.items()):
            self._last["human"] = self._last["execution"] = now
        self._asked = asked

    def _note_inputs(self, terminals: Iterable[Terminal], now: Moment) -> None:
        """Record new input to terminals as user actions. What it starts counts as long as it runs."""
        typed = {terminal.terminal_id: terminal.user_requests for terminal in terminals}
        if any(count > self._typed.get(terminal_id, 0) for terminal_id, count in typed.items()):
            self._last["human"] = now
        self._typed = typed

    def _note_outputs(self, sources: Iterable[Kernel | Terminal], now: Moment) -> str:
        """Record new output, and return the names of kernels and terminals with recent output for display.

        The first observation only sets the baseline, because output recorded by an earlier agent isn't new.
        """
        counts = {_key(source): source.outputs for source in sources}
        before, self._outputs = counts if self._outputs is None else self._outputs, counts
        spoken = [source for source in sources if source.outputs > before.get(_key(source), 0)]
        if spoken:
            self._last["output"] = now
            self._speakers = ", ".join(map(_name, spoken[:3]))
        last = self._last.get("output")
        is_late = last is None or last.age_s(now) > _OUTPUT_S
        return "" if is_late else f"{self._speakers or 'a kernel'} has output"

    def _source(self, name: str, state: str, detail: str, now: Moment) -> Source:
        last = self._last.get(name)
        return Source(state=state, last_at=None if last is None else now.wall - last.age_s(now), detail=detail)

    def to_json(self) -> dict[str, Any]:
        """Return the time when each source was last active, for the next agent."""
        return {name: moment.to_json() for name, moment in self._last.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the state from `to_json`; raise TypeError, KeyError or ValueError for other data."""
        self._last = {name: moment_from_json(moment) for name, moment in state.items()}


_CPU_TEXT = {"active": "the kernels' processes use CPU time", "unknown": "CPU time was read only once so far"}


def _key(source: Kernel | Terminal) -> str:
    return f"terminal {source.terminal_id}" if isinstance(source, Terminal) else source.kernel_id


def _name(source: Kernel | Terminal) -> str:
    return "a terminal" if isinstance(source, Terminal) else name_of(source)


def _commands_text(commands: Iterable[str]) -> str:
    running = [command for command in commands if command]
    return f"{running[0][:_COMMAND_LENGTH]} runs in a terminal" if running else ""


def _running_text(running: list[Kernel]) -> str:
    return f"a cell of {', '.join(map(name_of, running[:3]))} runs" if running else ""
