"""All terminals of a worker, by id, and the calls about them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.kernels.process import Process, ReportedExits, start_ticks
from jupyter_tpu.agent.paths import Home, disk_full, private_folder
from jupyter_tpu.agent.terminals.held_ptys import HeldPtys
from jupyter_tpu.agent.terminals.shell import start_shell
from jupyter_tpu.agent.terminals.terminal import Terminal, load_state
from jupyter_tpu.errors import BadInput, KernelFailed, TerminalNotFound, WrongState

log = logging.getLogger(__name__)

_TERMINAL_ID = re.compile(r"\w{1,64}", re.ASCII)
_MOST_TERMINALS = 50
# How long a terminal whose shell has exited is kept, so that a page that was disconnected gets its last output.
_KEPT_S = 600.0
_ROWS, _COLUMNS = 24, 80

Params = Mapping[str, Any]


class Terminals:
    """The worker's terminals, including those that an earlier agent started.

    Args:
        held: keeps the pseudo-terminals open when this agent exits.
        on_output: called when a record grows or a terminal is removed.
    """

    def __init__(self, home: Home, reports: ReportedExits, held: HeldPtys, on_output: Callable[[], None]) -> None:
        self._home = home
        self._reports = reports
        self._held = held
        self._on_output = on_output
        self._terminals: dict[str, Terminal] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.methods: dict[str, Callable[[Params], Awaitable[dict[str, Any]]]] = {
            "start_terminal": self.start_terminal,
            "list_terminals": self.list_terminals,
            "end_terminal": self.end_terminal,
        }

    def adopt(self) -> None:
        """Find an earlier agent's terminals, and remove those whose shell has exited."""
        descriptors = self._held.copies()
        folders = sorted(self._home.terminals.iterdir()) if self._home.terminals.is_dir() else []
        for folder in folders:
            try:
                self._adopt_one(folder, descriptors)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                log.info("terminal %s is gone: %s", folder.name, error)
                shutil.rmtree(folder, ignore_errors=True)
        for name, descriptor in descriptors.items():
            self._held.remove(name)
            os.close(descriptor)

    def _adopt_one(self, folder: Path, descriptors: dict[str, int]) -> None:
        state = load_state(folder)
        process = Process.find(state["pid"], state["started"], self._reports)
        if process is None:
            raise ValueError("its shell has exited")
        terminal = self._add(folder, process, descriptors.pop(folder.name))
        terminal.started_at = state["started_at"]

    def _add(self, folder: Path, process: Process, descriptor: int) -> Terminal:
        terminal = Terminal(folder, process, descriptor, self._on_output, self._exited)
        self._terminals[terminal.terminal_id] = terminal
        return terminal

    def get(self, terminal_id: Any) -> Terminal:
        """Return the terminal with this id.

        Raises:
            TerminalNotFound: there is no such terminal.
        """
        try:
            return self._terminals[terminal_id]
        except (KeyError, TypeError):
            raise TerminalNotFound(
                f"There is no terminal {str(terminal_id)[:70]} on the worker.",
                exists="Its shell has exited, or the node was restarted.",
                hint="Open a new terminal.",
            ) from None

    def running(self) -> list[Terminal]:
        """Return the terminals whose shell is running."""
        return [terminal for terminal in self._terminals.values() if terminal.is_running]

    async def start_terminal(self, params: Params) -> dict[str, Any]:
        """Start a shell of ``rows`` and ``columns`` in a new terminal, unless ``terminal_id`` exists."""
        name = params.get("terminal_id")
        if not isinstance(name, str) or not _TERMINAL_ID.fullmatch(name):
            raise BadInput(f"{str(name)[:70]!r} is not a terminal id.", hint="Use up to 64 letters and digits.")
        if name not in self._terminals:
            if len(self.running()) >= _MOST_TERMINALS:
                raise WrongState(
                    f"{_MOST_TERMINALS} terminals are open on the worker.", hint="Shut down one of them, and try again."
                )
            self._start(name, _size(params.get("rows"), _ROWS), _size(params.get("columns"), _COLUMNS))
        return self.get(name).describe()

    def _start(self, name: str, rows: int, columns: int) -> None:
        folder = self._home.terminals / name
        try:
            private_folder(folder)
            child, descriptor = start_shell(rows, columns)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise disk_full(self._home.root, error) or KernelFailed(
                "The worker can't start a shell.", hint="Close other terminals or kernels there.", raw=str(error)
            ) from error
        terminal = self._add(folder, Process(child.pid, start_ticks(child.pid) or 0, child, self._reports), descriptor)
        try:
            self._held.add(name, descriptor)
            terminal.save()
        except OSError as error:  # the terminal works, but only as long as this agent runs
            log.error("%s: a later agent will not find this terminal: %s", folder, error)

    async def list_terminals(self, _params: Params) -> dict[str, Any]:
        """Return the state of the terminals whose shell is running; see `Terminal.describe`."""
        return {"terminals": [terminal.describe() for terminal in self.running()]}

    async def end_terminal(self, params: Params) -> dict[str, Any]:
        """End a terminal's shell and its jobs."""
        await self.get(params.get("terminal_id")).end()
        return {}

    def _exited(self, terminal: Terminal) -> None:
        self._held.remove(terminal.terminal_id)
        task = asyncio.create_task(self._remove_later(terminal))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _remove_later(self, terminal: Terminal) -> None:
        await asyncio.sleep(_KEPT_S)
        del self._terminals[terminal.terminal_id]
        terminal.close()
        terminal.remove()
        self._on_output()

    def close(self) -> None:
        """Disconnect from all terminals. Their shells keep running if the supervisor does."""
        for task in self._ending:
            task.cancel()
        for terminal in self._terminals.values():
            terminal.close()
        self._held.close()


def _size(value: Any, default: int) -> int:
    return value if type(value) is int and value > 0 else default
