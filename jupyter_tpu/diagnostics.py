"""Findings of the doctor: one record for each check, on the laptop and on the worker. Pure; runs on Python 3.10."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

OK, WARNING, FAULT, UNKNOWN = "ok", "warning", "fault", "unknown"
STATES = (OK, WARNING, FAULT, UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        check: what was checked, in a word or two.
        state: one of `STATES`.
        text: what was found.
        fix: what exactly to do about it; empty where there is nothing to do.
    """

    check: str
    state: str
    text: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it is sent from the worker."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """Rebuild a finding from `to_json`; raises KeyError, TypeError or ValueError for anything else."""
        # It comes from another machine: no text may fill a terminal.
        found = cls(**{name: str(data[name])[:4000] for name in ("check", "state", "text", "fix")})
        if found.state not in STATES:
            raise ValueError(f"{found.state[:40]!r} is not a state of a finding")
        return found


def summary(findings: Iterable[Finding]) -> str:
    """Count the findings by state, worst first: ``2 faults, 1 warning, 9 ok``."""
    states = [each.state for each in findings]
    counts = {state: states.count(state) for state in (FAULT, WARNING, UNKNOWN, OK)}
    plural = {FAULT: "faults", WARNING: "warnings"}
    return ", ".join(
        f"{count} {plural.get(state, state) if count > 1 else state}" for state, count in counts.items() if count
    )
