"""Findings of the doctor: one record for each check on the client or the worker. No I/O; needs only Python 3.10."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jupyter_tpu.errors import Text, joined

OK, WARNING, FAULT, UNKNOWN = "ok", "warning", "fault", "unknown"
STATES = (OK, WARNING, FAULT, UNKNOWN)


FIXES: Mapping[str, tuple[Text, str]] = {
    "ask-again": (
        Text("On your own machine, run `jupyter tpu doctor NODE`."),
        "Run `jupyter tpu doctor {node}`.",
    ),
    "end-process": (
        Text("`%tpu release --pid {pid}` ends the process; its outputs are kept."),
        "`jupyter tpu release {node} --pid {pid}` ends the process; its outputs are kept.",
    ),
    "make-environment": (
        Text(
            "On your own machine, run `jupyter tpu env make NODE FRAMEWORK`. Each framework gets its own "
            "environment, with the Python version that it needs."
        ),
        "Run `jupyter tpu env make {node} FRAMEWORK`. Each framework gets its own environment, with the Python version "
        "that it needs.",
    ),
    "recreate-node": (
        Text("On your own machine, delete the node and create another one."),
        "Run `jupyter tpu delete {node}`, then create another node. The cloud can't stop this node, and its disk is "
        "lost.",
    ),
    "replace-agent": (
        Text(
            "On your own machine, run `jupyter tpu stop NODE`, then `jupyter tpu start NODE`. The agent is "
            "replaced, and kernels stop. A spot node or a slice of several VMs can't be stopped: delete it "
            "and create another one."
        ),
        "Run `jupyter tpu stop {node}`, then `jupyter tpu start {node}`. The agent is replaced, and kernels stop.",
    ),
    "send-rules": (
        Text("On your own machine, run `jupyter tpu autostop NODE`. It shows the rules and sends them to the node."),
        "`jupyter tpu autostop {node}` shows the rules and sends them to the node.",
    ),
    "set-rules": (
        Text("On your own machine, run `jupyter tpu autostop NODE --idle 1h --session 12h`."),
        "Run `jupyter tpu autostop {node} --idle 1h --session 12h`.",
    ),
}
"""Fixes that are commands, in two forms: for a notebook on the node, and for a terminal, with the node's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        check: name of the check, in a word or two.
        state: one of `STATES`.
        text: what was found.
        fix: exact instructions, as shown in a notebook; empty if there is nothing to do.
        fix_code: key of the fix in `FIXES`; empty if its text is the same for a notebook and a terminal.
        fix_values: the values in the text of that fix.
    """

    check: str
    state: str
    text: str
    fix: str = ""
    fix_code: str = ""
    fix_values: Mapping[str, str] = field(default_factory=dict)

    def fixed_by(self, code: str, **values: object) -> Finding:
        """Build a finding whose fix is one of `FIXES`."""
        texts = {name: str(value) for name, value in values.items()}
        return replace(self, fix=FIXES[code][0].with_arguments(**texts), fix_code=code, fix_values=texts)

    def in_terminal(self, node: str, code: str = "") -> Finding:
        """Return the finding with its fix worded for a terminal.

        Args:
            node: the node's name, and its zone as an option.
            code: key of another fix in `FIXES` to use instead.
        """
        text = FIXES[code or self.fix_code][1] if (code or self.fix_code) in FIXES else ""
        return replace(self, fix=_filled(text, {**self.fix_values, "node": node})) if text else self

    def to_json(self) -> dict[str, Any]:
        """Return the finding in the format in which the worker sends it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """Rebuild a finding from `to_json`; raise KeyError, TypeError or ValueError for other data."""
        # The data comes from another machine, so limit the length of the texts.
        texts = {name: str(data[name])[:4000] for name in ("check", "state", "text", "fix")}
        # older agents send no code
        values = {str(name): str(value)[:100] for name, value in dict(data.get("fix_values", {})).items()}
        found = cls(**texts, fix_code=str(data.get("fix_code", "")), fix_values=values)
        if found.state not in STATES:
            raise ValueError(f"{found.state[:40]} is not a valid state of a finding")
        return found


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in the placeholders of a text.

    A placeholder stays unchanged if an agent of another version did not send its value.
    """
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


_STATE_TEXTS = {OK: Text("ok"), WARNING: Text("warning"), FAULT: Text("fault"), UNKNOWN: Text("unknown")}


def state_text(state: str) -> str:
    """Return the display name of a state."""
    return _STATE_TEXTS.get(state, state)


def summary(findings: Iterable[Finding]) -> str:
    """Count the findings by state, worst first: ``2 faults, 1 warning, 9 ok``."""
    states = [each.state for each in findings]
    counts = {state: states.count(state) for state in (FAULT, WARNING, UNKNOWN, OK)}
    one = {FAULT: Text("1 fault"), WARNING: Text("1 warning"), UNKNOWN: Text("1 unknown"), OK: Text("1 ok")}
    parts = (one[state] if count == 1 else _several(state, count) for state, count in counts.items() if count)
    return joined(parts, ", ")


def _several(state: str, count: int) -> Text:
    if state == FAULT:
        return Text("{count} faults", count=count)
    if state == WARNING:
        return Text("{count} warnings", count=count)
    return Text("{count} unknown", count=count) if state == UNKNOWN else Text("{count} ok", count=count)
