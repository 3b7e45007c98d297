"""``%tpu doctor``: what could keep this kernel from its chips, and the fix of each."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_tpu.findings import FAULT, OK, WARNING, Finding, summary
from jupyter_tpu.notebook.doctor import examine
from jupyter_tpu.notebook.magic_shown import Section, Shown
from jupyter_tpu.notebook.magic_words import Here, Word, take_apart

_ORDER = (FAULT, WARNING)


def doctor(here: Here, words: Sequence[str]) -> Shown:
    given = take_apart(words, flags=("--json",))
    findings = examine(here.environ)
    return as_json(findings) if "--json" in given.flags else shown(findings)


def shown(findings: Sequence[Finding]) -> Shown:
    """What is wrong first, each with its fix."""
    rows = [(each.state, each.check, each.text) for each in sorted(findings, key=_rank)]
    fixes = [f"{each.check}: {each.fix}" for each in findings if each.fix and each.state != OK]
    found = Section(title=summary(findings), header=("", "check", "finding"), rows=rows)
    return Shown(sections=[found, *([Section(title="What to do", lines=fixes)] if fixes else [])])


def _rank(finding: Finding) -> int:
    return _ORDER.index(finding.state) if finding.state in _ORDER else len(_ORDER)


def as_json(findings: Sequence[Finding]) -> Shown:
    """The same for programs: one JSON document, whole."""
    import json

    text = json.dumps([each.to_json() for each in findings], indent=1)
    return Shown(sections=[Section(verbatim=text.splitlines())])


WORDS = (
    Word(
        name="doctor",
        summary="Looks for what could keep this kernel from its chips, and says how to mend it.",
        usage={
            "%tpu doctor": "environment, versions, holders, lock file, fall-back, disk, clock, guard and brakes",
            "%tpu doctor --json": "the same for programs",
        },
        options=("--json",),
        act=doctor,
    ),
)
