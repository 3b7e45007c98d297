"""Why a node was stopped or deleted: recorded once and shown in the same sentence everywhere.

This module is pure.

The code that stops or deletes a node writes the cause into its intent; the cloud's own reasons, such as pre-emption,
come from the node's state. A front end builds the sentence from the same fields, in the user's language and time zone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from jupyter_tpu.errors import Action, Text, templates_of, text_from_json
from jupyter_tpu.models import NodeName

Cause = Literal["stop", "delete", "idle", "session", "deadline", "budget", "stop_all", "preempted", "repair", "unknown"]
"""The cause: the user, one of auto-stop's rules, a budget, *Stop everything*, the cloud (two causes) or unknown."""

AGENT_CAUSES = frozenset({"stop", "delete", "idle", "session", "deadline"})
"""Causes that the agent on the node reports: ``%tpu stop`` in a notebook, or auto-stop by the node's guard."""
NOTICED_CAUSES = frozenset({"preempted", "repair", "unknown"})
"""Causes without a request by the user or jupyter_tpu, so that only the time when they were noticed is known."""

_DETAIL_TEXT = "detail_text"
"""The field in a cause's JSON with the template and values of its detail; earlier versions ignore it."""

_CAUSES = frozenset(get_args(Cause))
_WHAT = {True: "deleted", False: "stopped"}
_SENTENCES: Mapping[Cause, str] = {
    "stop": "You {what} {node} at {time}.",
    "delete": "You {what} {node} at {time}.",
    "idle": "{node} was {what} at {time}: idle for {detail}.",
    "session": "{node} was {what} at {time}: maximum session length of {detail} reached.",
    "deadline": "{node} was {what} at {time}: deadline reached.",
    "budget": "{node} was {what} at {time}: budget {name} is used up ({detail}).",
    "stop_all": "{node} was {what} at {time}: you stopped everything.",
    "preempted": "{node} was pre-empted at {time}: the cloud needed the machine.",
    "repair": "{node} went down at {time} for repair by Google.",
    "unknown": "{node} was {what} at {time}, but not by this Jupyter server.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCause:
    """The cause of a stop or deletion, as recorded in the intent.

    Attributes:
        cause: a stable code.
        name: name of the budget that was used up; empty if the cause is not a budget.
        detail: the limit that was reached, as text for display, such as ``1 h`` or ``$5.02 of $5.00 today``;
            a `Text` if a front end can translate it.
    """

    cause: Cause
    name: str = ""
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all fields; `from_json` is the inverse."""
        made_of = {_DETAIL_TEXT: self.detail.to_json()} if isinstance(self.detail, Text) else {}
        return {"cause": self.cause, "name": self.name, "detail": str(self.detail), **made_of}

    @classmethod
    def from_json(cls, data: object) -> EndCause | None:
        """Restore a cause from the output of `to_json`; return None for other values.

        Intents from earlier versions, for example, contain no cause.
        """
        if not isinstance(data, Mapping) or str(data.get("cause")) not in _CAUSES:
            return None
        detail = text_from_json(data.get(_DETAIL_TEXT), str(data.get("detail", "")))
        return cls(cause=data["cause"], name=str(data.get("name", "")), detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnd:
    """The stop or deletion of a node, as reported to the users of its kernels.

    Attributes:
        at: when the stop or deletion was requested or noticed (Unix seconds).
        is_deleted: whether the node was deleted with its disk; if not, it was stopped.
        actions: what a front end can offer, such as restarting the node.
    """

    node: NodeName
    why: EndCause
    at: float
    is_deleted: bool
    actions: tuple[Action, ...] = field(default=())

    @property
    def message(self) -> str:
        """Return one sentence with the event, its time (local to this machine) and its cause."""
        # front ends can format the time `at` themselves, so this sentence needs no template
        return _SENTENCES[self.why.cause].format(
            node=self.node.node_id,
            what=_WHAT[self.is_deleted],
            time=time.strftime("%H:%M", time.localtime(self.at)),
            name=self.why.name,
            detail=self.why.detail,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as the REST API shows them."""
        return {
            "zone": self.node.zone,
            "node_id": self.node.node_id,
            "cause": self.why.cause,
            "name": self.why.name,
            "detail": str(self.why.detail),
            **templates_of({"detail": self.why.detail}),
            "at": self.at,
            "is_deleted": self.is_deleted,
            "message": self.message,
            "actions": [action.to_json() for action in self.actions],
        }
