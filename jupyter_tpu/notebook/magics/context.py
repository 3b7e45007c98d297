"""The kernel in which a magic runs, with calls to the agent and questions to the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.notebook.display import plainly
from jupyter_tpu.notebook.node.agent_call import CELL_TIMEOUT_S, Call, call_agent, call_all
from jupyter_tpu.notebook.slices import current
from jupyter_tpu.worker_clock import wall_clock

PATIENCE_VARIABLE = "JUPYTER_TPU_PATIENCE_S"
"""The environment variable with the number of seconds that ``%tpu`` waits for the agent."""

# Maximum value of the variable: a cell that waits longer would look as if it hangs.
LONGEST_PATIENCE_S = 600

NOTHING_DONE = Text("Nothing was done.")

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class MagicContext:
    """The kernel in which a magic runs.

    Attributes:
        environ: the kernel's environment variables, which include the path of the agent's socket.
        now: when the magic started, in Unix seconds.
        worker: the worker whose agent is called; always 0 outside a slice.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: float = field(default_factory=wall_clock)
    worker: int = 0

    def of_all_workers(self) -> list[MagicContext]:
        """Return a context for the agent of each worker of this kernel that has joined, beginning with worker 0."""
        others = getattr(current(), "present", ())
        return [self, *(replace(self, worker=worker) for worker in others)]

    @property
    def patience_s(self) -> float:
        """Seconds to wait for data that is only displayed; an environment variable can extend it for slow nodes."""
        text = self.environ.get(PATIENCE_VARIABLE, "")
        return (
            float(text) if text.isascii() and text.isdigit() and 0 < int(text) <= LONGEST_PATIENCE_S else CELL_TIMEOUT_S
        )

    def call(self, method: str, params: Mapping[str, Any], patience_s: float | None = None) -> dict[str, Any]:
        """Call an agent's method, see `call_agent`; wait for `patience_s` or the usual time, whichever is longer."""
        patience_s = max(patience_s or 0.0, self.patience_s)
        if self.worker:
            answer: dict[str, Any] = current().call_agent(self.worker, method, params, patience_s)
            return answer
        return call_agent(method, params, self.environ, patience_s=patience_s)

    def call_all(self, calls: Mapping[str, Call]) -> Mapping[str, dict[str, Any] | TpuError]:
        """Call several methods of the agent together, see `agent_call.call_all`."""
        return call_all(calls, self.environ, patience_s=self.patience_s)

    def confirm(self, question: Text, hint: str = "Add --yes to the line.") -> bool:
        """Ask the user a yes-or-no question; return whether the answer is yes.

        Raises:
            BadInput: the front end can't ask; `hint` explains how to skip the question.
        """
        try:
            return input(f"{plainly(question)} [y/N] ").strip().lower() in ("y", "yes")
        except (EOFError, OSError, RuntimeError) as error:  # IPython's own error is a RuntimeError
            raise BadInput("This front end can't ask for confirmation.", exists=NOTHING_DONE, hint=hint) from error
