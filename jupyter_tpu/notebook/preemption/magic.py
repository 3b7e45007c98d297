"""``%%tpu_on_preempt``: remembers what is to be saved when the node is about to be taken away."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import BadInput, TpuError
from jupyter_tpu.notebook.node.agent_call import ask_agent
from jupyter_tpu.notebook.preemption.hook import Hook, Notified

_HOW = "Begin a cell with %%tpu_on_preempt and write below it what is to be saved; or use --show, --clear or --test."
_NOBODY = "No agent of jupyter_tpu has started this kernel, so nothing will start it. --test runs it now."
_REMEMBERED = "Remembered. It runs once when this node is about to end: on pre-emption, by auto-stop or by a budget."
_NONE = "Nothing is remembered."


class CheckpointHook:
    """The one hook of a kernel; `environ` says where its agent is."""

    def __init__(self, shell: Any, environ: Mapping[str, str] = os.environ) -> None:
        self._shell = shell
        self._environ = environ
        self._hook: Hook | None = None
        self._notified: Notified | None = None

    def act(self, line: str, cell: str | None) -> str:
        """Do what the magic asks for; what is to be told.

        Raises:
            BadInput: it asks for nothing that we know.
            SyntaxError: the body is no Python.
        """
        if cell is not None:
            return self._remember(line, cell)
        acts = {"": self._show, "--show": self._show, "--clear": self._clear, "--test": self._test}
        act = acts.get(line.strip())
        if act is None:
            raise BadInput(f"%tpu_on_preempt does not know {line.strip()[:60]!r}.", hint=_HOW)
        return act()

    def _remember(self, line: str, cell: str) -> str:
        if line.strip() or not cell.strip():
            raise BadInput("This says nothing that could be run.", exists="What was remembered stays.", hint=_HOW)
        hook = Hook(cell, self._shell.transform_cell(cell), self._shell.user_ns)
        path = self._environ.get("JUPYTER_TPU_HOOK_SOCKET", "")
        if path and self._notified is None:
            self._notified = Notified(Path(path), hook, self._report)
            self._notified.begin()
        elif self._notified is not None:
            self._notified.hook = hook
        self._hook = hook
        return _REMEMBERED if path else f"Remembered. {_NOBODY}"

    def _show(self) -> str:
        return self._hook.source.rstrip("\n") if self._hook else f"{_NONE} {_HOW}"

    def _clear(self) -> str:
        if self._notified is not None:
            self._notified.end()
        was_there, self._hook, self._notified = self._hook is not None, None, None
        return "It is forgotten, and will not be run." if was_there else _NONE

    def _test(self) -> str:
        """Errors are those of the cell."""
        if self._hook is None:
            raise BadInput(_NONE, hint=_HOW)
        begun = time.monotonic()
        self._hook.run()
        return f"It ran in {time.monotonic() - begun:.1f} s."

    def _report(self, outcome: Mapping[str, Any]) -> None:
        """Tell the agent, which writes it down; while it is being started anew it hears a little later."""
        kernel_id = self._environ.get("JUPYTER_TPU_KERNEL_ID", "")
        with suppress(TpuError):
            ask_agent("hook_ran", {"kernel_id": kernel_id, **outcome}, self._environ)
