"""Auto-stop as JSON, for the REST API and the CLI's ``--json``. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jupyter_tpu.errors import templates_of

if TYPE_CHECKING:
    from jupyter_tpu.fleet.autostop.controller import AutostopStatus

JSON = dict[str, Any]


def autostop_status_view(status: AutostopStatus) -> JSON:
    """Return the auto-stop status of one node. It contains texts from the agent; escape them before you show them."""
    verdict, rules, name = status.verdict, status.rules, status.node.name
    return {
        "name": str(name),
        "node_id": name.node_id,
        "zone": name.zone,
        **rules.to_json(),
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        **templates_of({"reason": verdict.reason}),
        "sources": [
            {
                "source": source,
                "state": each.state,
                "age_s": verdict.ages_s[source],
                "detail": each.detail,
                **templates_of({"detail": each.detail}),
            }
            for source, each in status.activity
        ],
        "ends_at": verdict.ends_at,
        "ends_why": verdict.ends_why,
        "is_warning": verdict.is_warning,
        "idle_s": verdict.idle_s,
        "idle_limit_s": verdict.idle_limit_s,
        "reminder": status.reminder and status.reminder.to_json(name.node_id),
        "kept_until": status.keep.until,
        "kept_while_busy": status.keep.while_busy,
        "guard": dict(status.guard),
    }


def autostop_view(statuses: Iterable[AutostopStatus], *, as_of: float | None) -> JSON:
    """Return the status of all nodes; `as_of` is when they were listed (Unix seconds)."""
    return {"as_of": as_of, "nodes": [autostop_status_view(status) for status in statuses]}
