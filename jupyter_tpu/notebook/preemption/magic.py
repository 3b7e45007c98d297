"""``%%tpu_on_preempt``: store, show, test and clear the checkpoint hook of a kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.i18n import _
from jupyter_tpu.notebook import slices
from jupyter_tpu.notebook.node.agent_call import call_agent
from jupyter_tpu.notebook.preemption.hook import Hook, NoticeListener, to_nobody

_HOW = (
    "Start a cell with `%%tpu_on_preempt`, and write the code that saves your work below that line. Or "
    "run `%tpu_on_preempt` with --show, --clear or --test."
)
_NO_AGENT = (
    "This kernel was not started by an agent of jupyter_tpu, so the hook never runs by itself. To run it "
    "now, use `%tpu_on_preempt --test`."
)
_SAVED = "Hook saved. It runs once, shortly before pre-emption, auto-stop or a budget stops this node."
_ONLY_HERE = "Hook saved on this worker only. It runs if worker 0 has a hook as well."
_NONE = "This kernel has no hook."


class CheckpointHook:
    """The state of ``%tpu_on_preempt``: the kernel's only hook, if any. `environ` contains the agent's socket paths."""

    def __init__(self, shell: Any, environ: Mapping[str, str] = os.environ) -> None:
        self._shell = shell
        self._environ = environ
        self._hook: Hook | None = None
        self._notified: NoticeListener | None = None

    def run_line(self, line: str, cell: str | None) -> str:
        """Run a line or cell of the magic; return the text to show.

        Raises:
            BadInput: the line has an unknown option, or the cell is empty.
            SyntaxError: the cell is not valid Python.
        """
        if cell is not None:
            return self._store(line, cell)
        acts = {"": self._show, "--show": self._show, "--clear": self._clear, "--test": self._test}
        act = acts.get(line.strip())
        if act is None:
            text = Text("%tpu_on_preempt has no argument {argument}.", argument=f"{line.strip()[:60]!r}")
            raise BadInput(text, hint=_HOW)
        return act()

    def _store(self, line: str, cell: str) -> str:
        if line.strip() or not cell.strip():
            raise BadInput("The cell has no code to run.", exists="The hook is unchanged.", hint=_HOW)
        self._hook = hook = Hook(cell, self._shell.transform_cell(cell), self._shell.user_ns)
        # One listener handles all hooks of the kernel: a new cell only replaces the listener's code.
        if self._notified is not None:
            self._notified.hook = hook
        elif not self._listen(hook):
            return _("Hook saved. {problem}", problem=Text(_NO_AGENT))
        return _(_ONLY_HERE if self._is_other_worker and slices.runs_here_only() else _SAVED)

    @property
    def _is_other_worker(self) -> bool:
        return bool(self._environ.get(slices.WORKER_VARIABLE))

    def _listen(self, hook: Hook) -> bool:
        """Start to listen for notices, from the agent or, on other workers of a slice, from worker 0."""
        path, place = self._environ.get("JUPYTER_TPU_HOOK_SOCKET", ""), slices.current()
        if self._is_other_worker:
            # Worker 0 includes this worker's outcome in its own report.
            self._notified = NoticeListener(None, hook, lambda _: None)
            place.on_notice = self._notified.handle
        elif path:
            forward = place.forward_notice if place else to_nobody
            self._notified = NoticeListener(Path(path), hook, self._report, forward)
        else:
            return False
        self._notified.start()
        return True

    def _show(self) -> str:
        return self._hook.source.rstrip("\n") if self._hook else f"{_(_NONE)} {_(_HOW)}"

    def _clear(self) -> str:
        if self._notified is not None:
            self._notified.stop()
        if self._is_other_worker:
            slices.current().on_notice = None
        was_there, self._hook, self._notified = self._hook is not None, None, None
        return _("Hook cleared. It will not run.") if was_there else _(_NONE)

    def _test(self) -> str:
        """Run the hook now; raise its errors in the cell."""
        if self._hook is None:
            raise BadInput(_NONE, hint=_HOW)
        begun = time.monotonic()
        self._hook.run()
        return _("The hook ran in {seconds} s.", seconds=f"{time.monotonic() - begun:.1f}")

    def _report(self, outcome: Mapping[str, Any]) -> None:
        """Report the outcome to the agent, which stores it."""
        # If the agent is restarting, ignore the error: the agent will send its notice again, and this function will be
        # called again.
        kernel_id = self._environ.get("JUPYTER_TPU_KERNEL_ID", "")
        with suppress(TpuError):
            call_agent("hook_ran", {"kernel_id": kernel_id, **outcome}, self._environ)
