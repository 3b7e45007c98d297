"""The guard's policy: the auto-stop rules and extensions from clients, with their arrival times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.autostop import (
    DURATION_FIELDS,
    LONGEST_S,
    NO_KEEP_RUNNING,
    KeepRunning,
    Moment,
    Rules,
    moment_from_json,
    number_from,
)
from jupyter_tpu.errors import BadInput

# After a boot, the wall clock may be wrong until NTP sets it, which takes seconds on GCE. Until then, a deadline from
# before the boot is not reached, so that a wrong clock doesn't stop a node that was just started.
_CLOCK_SET_WITHIN_S = 600.0


@dataclass(frozen=True)
class AutostopPolicy:
    """The auto-stop rules and extensions that clients have set.

    Attributes:
        rules: the auto-stop rules; None until a client has sent rules.
        revision: revision of the rules (Unix seconds of the client that set them); newer rules replace older ones.
        given_at: when the rules arrived.
        keep: the request to keep the node running.
        keep_revision: revision of the last such request from a client.
        kept_at: when `keep` arrived.
        ready_since: when the node became READY; None until a client sends it.
        supervisor: identity of the agent's supervisor; a change means that a client had to restart the agent.
    """

    rules: Rules | None = None
    revision: float = 0.0
    given_at: Moment | None = None
    keep: KeepRunning = NO_KEEP_RUNNING
    keep_revision: float = 0.0
    kept_at: Moment | None = None
    ready_since: Moment | None = None
    supervisor: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the policy in the format stored on the worker's disk."""
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
        """Rebuild a policy from `to_json`; raise TypeError, KeyError, ValueError or BadInput for other data."""
        moments = {
            name: moment_from_json(data[name]) if data[name] else None
            for name in ("given_at", "kept_at", "ready_since")
        }
        return cls(
            rules=Rules.from_json(data["rules"]) if data["rules"] is not None else None,
            revision=float(data["revision"]),
            keep=KeepRunning(**data["keep"]),
            keep_revision=float(data["keep_revision"]),
            supervisor=str(data["supervisor"]),
            **moments,
        )

    def rules_now(self, now: Moment) -> Rules:
        """Return the rules, with the deadline corrected for clock changes. Without rules, nothing stops the node."""
        rules = self.rules or Rules()
        if rules.deadline_at is None or self.given_at is None:
            return rules
        deadline_at = _end_now(rules.deadline_at, self.given_at, now)
        if self.given_at.boot != now.boot:
            deadline_at = max(deadline_at, now.wall + _CLOCK_SET_WITHIN_S - now.steady)
        return replace(rules, deadline_at=deadline_at)

    def keep_now(self, now: Moment) -> KeepRunning:
        """Return the request to keep the node running, with its time corrected for clock changes."""
        if self.keep.until is None or self.kept_at is None:
            return self.keep
        return replace(self.keep, until=_end_now(self.keep.until, self.kept_at, now))


def _end_now(end_at: float, given_at: Moment, now: Moment) -> float:
    """Convert an end set at `given_at` to the wall clock at `now`, so that setting the clock doesn't move the end."""
    return now.wall + (end_at - given_at.wall) - given_at.age_s(now)


def parse_rules(data: Any, now: Moment) -> Rules:
    """Parse rules from a client, with the deadline given as ``deadline_in_s``; raise `BadInput` for invalid rules."""
    if not isinstance(data, dict):
        raise BadInput("The field 'rules' must be an object.")
    # Older clients don't send all fields.
    lengths = {name: data[name] for name in DURATION_FIELDS if name in data}
    deadline_at = None if data.get("deadline_in_s") is None else now.wall + number_from(data, "deadline_in_s")
    return Rules(**lengths, deadline_at=deadline_at, action=str(data.get("action", "stop")))


def parse_keep(data: Any, now: Moment) -> KeepRunning:
    """Parse a request to keep the node running: ``until`` (Unix seconds), ``for_s`` or ``while_busy``.

    Raises:
        BadInput: a value is not valid.
    """
    if not isinstance(data, dict):
        raise BadInput("The field 'keep' must be an object.")
    # Prefer a duration, because it does not depend on the client's clock.
    until = None if data.get("until") is None else number_from(data, "until")
    if data.get("for_s") is not None:
        until = now.wall + number_from(data, "for_s")
    if until is not None and until - now.wall > LONGEST_S:
        raise BadInput("A node can be kept running for 400 days at most.")
    return KeepRunning(until=until, while_busy=data.get("while_busy", False))
