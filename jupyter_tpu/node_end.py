"""Why a node ended: recorded once, and the one sentence that every surface shows about it. Pure.

The code that ends a node writes the cause into its intent; the cloud's own reasons, such as a pre-emption, come from
the node's state. A front end writes the sentence in the user's language and time zone, from the same fields.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from jupyter_tpu.errors import Action
from jupyter_tpu.models import NodeName

Cause = Literal["stop", "delete", "idle", "session", "deadline", "budget", "stop_all", "preempted", "repair", "unknown"]
"""``stop`` and ``delete`` by the user, auto-stop's three, a budget, *Stop everything*, the cloud's two, or unknown."""

AGENT_CAUSES = frozenset({"stop", "delete", "idle", "session", "deadline"})
"""Causes that the agent on the node reports: a notebook's ``%tpu stop``, or auto-stop by its guard."""
NOTICED_CAUSES = frozenset({"preempted", "repair", "unknown"})
"""Causes of ends that nobody asked for here, so they have no time of a request."""

_CAUSES = frozenset(get_args(Cause))
_WHAT = {True: "deleted", False: "stopped"}
_SENTENCES: Mapping[Cause, str] = {
    "stop": "You {what} {node} at {time}.",
    "delete": "You {what} {node} at {time}.",
    "idle": "{node} was {what} at {time}: idle for {detail}.",
    "session": "{node} was {what} at {time}: session limit of {detail} reached.",
    "deadline": "{node} was {what} at {time}: deadline reached.",
    "budget": "{node} was {what} at {time}: budget {name} is used up ({detail}).",
    "stop_all": "{node} was {what} at {time}: you stopped everything.",
    "preempted": "{node} was pre-empted at {time}: the cloud needed the machine.",
    "repair": "{node} went down at {time} for repair by Google.",
    "unknown": "{node} was {what} at {time}, but not by this Jupyter server.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCause:
    """Why a node is asked to end, as its intent records it.

    Attributes:
        cause: a stable word.
        name: name of the budget; empty for other causes.
        detail: the limit that was reached, for display, such as ``1 h`` or ``$5.02 of $5.00 today``.
    """

    cause: Cause
    name: str = ""
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return all fields; `from_json` is the inverse."""
        return {"cause": self.cause, "name": self.name, "detail": self.detail}

    @classmethod
    def from_json(cls, data: object) -> EndCause | None:
        """Read what `to_json` wrote; None for anything else, such as an intent of an earlier version."""
        if not isinstance(data, Mapping) or str(data.get("cause")) not in _CAUSES:
            return None
        return cls(cause=data["cause"], name=str(data.get("name", "")), detail=str(data.get("detail", "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnd:
    """The end of a node, for the users of its kernels.

    Attributes:
        at: when it was asked for, or noticed (Unix seconds).
        is_deleted: whether the node is gone with its disk; else it was stopped.
        actions: what a front end can offer, such as to start the node again.
    """

    node: NodeName
    why: EndCause
    at: float
    is_deleted: bool
    actions: tuple[Action, ...] = field(default=())

    @property
    def message(self) -> str:
        """Return what happened, when and why, in one sentence with this machine's local time."""
        # front ends write it themselves, so it needs no template
        return _SENTENCES[self.why.cause].format(
            node=self.node.node_id,
            what=_WHAT[self.is_deleted],
            time=time.strftime("%H:%M", time.localtime(self.at)),
            name=self.why.name,
            detail=self.why.detail,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the end as the REST API shows it."""
        return {
            "zone": self.node.zone,
            "node_id": self.node.node_id,
            **self.why.to_json(),
            "at": self.at,
            "is_deleted": self.is_deleted,
            "message": self.message,
            "actions": [action.to_json() for action in self.actions],
        }
