"""The setup steps as records. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_tpu.errors import TpuError, templates_of

Key = Literal["credentials", "project", "api", "quota", "budget"]
State = Literal["done", "to_do", "unknown", "failed"]
ActionName = Literal[
    "", "use_credentials", "use_project", "link_billing", "open_billing", "enable_api", "add_grant", "set_budget"
]

KEYS: tuple[Key, ...] = ("credentials", "project", "api", "quota", "budget")
PERFORMED: frozenset[ActionName] = frozenset(
    {"use_credentials", "use_project", "link_billing", "enable_api", "set_budget"}
)
"""The actions that the engine performs; all others open a page or a form."""

LOGIN_COMMAND = "gcloud auth application-default login"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One setup step.

    Attributes:
        text: the state, in one sentence.
        action: the offered action; empty if there is no action.
        does: the effect of the action, shown before the user confirms it; empty if there is no action.
        command: a command for a terminal, only if neither the panel nor `SetupEngine` can do the same; empty if there
            is no such command.
        error: why the check failed, or why the state is unknown.
        target: the object of the action, such as a billing account's name, which is sent back with the action.
    """

    key: Key
    state: State
    text: str
    action: ActionName = ""
    does: str = ""
    command: str = ""
    error: TpuError | None = None
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the step as the REST API and ``--json`` show it, with message templates that front ends translate."""
        return {
            "key": self.key,
            "state": self.state,
            "text": str(self.text),
            "action": self.action,
            "does": str(self.does),
            "command": self.command,
            "target": self.target,
            "error": self.error.to_json() if self.error else None,
            **templates_of({"text": self.text, "does": self.does}),
        }


def is_complete(steps: Iterable[Step]) -> bool:
    """Return whether nodes can be created: the API responds, no check has failed and no necessary step is missing.

    Ignores steps whose state these credentials may not read, such as billing. A budget is recommended, not necessary.
    """
    states = {step.key: step.state for step in steps}
    missing = {key for key, state in states.items() if state == "to_do"}
    return states.get("api") == "done" and "failed" not in states.values() and missing <= {"budget"}


def waiting(key: Key, text: str) -> Step:
    """Return a step that can't be checked yet."""
    return Step(key=key, state="unknown", text=text)


def failed(key: Key, error: TpuError, state: State = "failed") -> Step:
    """Return a step whose check failed with an error."""
    return Step(key=key, state=state, text=error.message, error=error)
