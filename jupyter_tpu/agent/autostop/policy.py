"""What the guard is told, and how it is kept: rules and wishes with the moments at which they were heard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.brakes import (
    LENGTHS,
    LONGEST_S,
    NO_KEEP,
    Keep,
    Moment,
    Rules,
    earliest_end,
    moment_from_json,
    number_from,
)
from jupyter_tpu.errors import BadInput


@dataclass(frozen=True)
class AutostopPolicy:
    """What the guard was told.

    Attributes:
        rules: None: nobody has said anything.
        revision: of the rules, by the clock of who laid them down; newer ones win.
        keep_revision: of the last wish to keep that came from a laptop.
        given_at, kept_at: when we heard of rules and keep.
        ready_since: None: nobody has said.
        supervisor: whose child the agent was; another one means that somebody has connected anew.
    """

    rules: Rules | None = None
    revision: float = 0.0
    given_at: Moment | None = None
    keep: Keep = NO_KEEP
    keep_revision: float = 0.0
    kept_at: Moment | None = None
    ready_since: Moment | None = None
    supervisor: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "rules": self.rules.to_json() if self.rules else None,
            "revision": self.revision,
            "keep": self.keep.to_json(),
            "keep_revision": self.keep_revision,
            "supervisor": self.supervisor,
            **{name: moment and moment.to_json() for name, moment in self._moments().items()},
        }

    def _moments(self) -> dict[str, Moment | None]:
        return {"given_at": self.given_at, "kept_at": self.kept_at, "ready_since": self.ready_since}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AutostopPolicy:
        """The inverse of `to_json`; raises TypeError, KeyError, ValueError or BadInput for anything else."""
        moments = {
            name: moment_from_json(data[name]) if data[name] else None
            for name in ("given_at", "kept_at", "ready_since")
        }
        return cls(
            rules=Rules.from_json(data["rules"]) if data["rules"] is not None else None,
            revision=float(data["revision"]),
            keep=Keep(**data["keep"]),
            keep_revision=float(data["keep_revision"]),
            supervisor=str(data["supervisor"]),
            **moments,
        )

    def rules_now(self, now: Moment) -> Rules:
        """With the deadline by both clocks; nothing ends the node where nobody has said anything."""
        rules = self.rules or Rules()
        if rules.deadline_at is None or self.given_at is None:
            return rules
        return replace(rules, deadline_at=earliest_end(rules.deadline_at, self.given_at, now))

    def keep_now(self, now: Moment) -> Keep:
        if self.keep.until is None or self.kept_at is None:
            return self.keep
        return replace(self.keep, until=earliest_end(self.keep.until, self.kept_at, now))


def rules_from(data: Any, now: Moment) -> Rules:
    """Rules as a client sends them, the deadline as ``deadline_in_s``; raises `BadInput`."""
    if not isinstance(data, dict):
        raise BadInput("Rules must be an object.")
    # an older client does not know all of them
    lengths = {name: data[name] for name in LENGTHS if name in data}
    deadline_at = None if data.get("deadline_in_s") is None else now.wall + number_from(data, "deadline_in_s")
    return Rules(**lengths, deadline_at=deadline_at, action=str(data.get("action", "stop")))


def keep_from(data: Any, now: Moment) -> Keep:
    """A keep as a client sends it, with ``until`` in Unix seconds, ``for_s`` or ``while_busy``; raises `BadInput`."""
    if not isinstance(data, dict):
        raise BadInput("A keep must be an object.")
    until = None if data.get("until") is None else number_from(data, "until")
    if data.get("for_s") is not None:
        until = now.wall + number_from(data, "for_s")
    if until is not None and until - now.wall > LONGEST_S:
        raise BadInput("A node is kept for 400 days at most.")
    return Keep(until=until, while_busy=data.get("while_busy", False))
