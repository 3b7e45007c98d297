"""How brakes look as JSON, in the REST API and in the CLI's ``--json`` alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_tpu.fleet.autostop.controller import Brake

JSON = dict[str, Any]


def brake_view(brake: Brake) -> JSON:
    """One node's; what its agent said stays text."""
    verdict, rules, name = brake.verdict, brake.rules, brake.node.name
    return {
        "name": str(name),
        "node_id": name.node_id,
        "zone": name.zone,
        **rules.to_json(),
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "sources": [
            {"source": source, "state": each.state, "age_s": verdict.ages_s[source], "detail": each.detail}
            for source, each in brake.activity
        ],
        "ends_at": verdict.ends_at,
        "ends_why": verdict.ends_why,
        "is_warning": verdict.is_warning,
        "idle_s": verdict.idle_s,
        "idle_limit_s": verdict.idle_limit_s,
        "reminder": brake.reminder and brake.reminder.to_json(name.node_id),
        "kept_until": brake.keep.until,
        "kept_while_busy": brake.keep.while_busy,
        "guard": dict(brake.guard),
    }


def brakes_view(brakes: Iterable[Brake], *, as_of: float | None) -> JSON:
    """All of them; `as_of` is when the nodes were listed."""
    return {"as_of": as_of, "nodes": [brake_view(brake) for brake in brakes]}
