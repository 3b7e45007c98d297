"""``%tpu doctor``: find problems that could prevent this kernel from using its chips, with their fixes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from jupyter_tpu.diagnostics import FAULT, OK, WARNING, Finding, state_text, summary
from jupyter_tpu.errors import Text
from jupyter_tpu.notebook.display import MagicOutput, Section
from jupyter_tpu.notebook.doctor.examine import examine
from jupyter_tpu.notebook.magics.context import MagicContext

_ORDER = (FAULT, WARNING)


def doctor(context: MagicContext, options: Namespace) -> MagicOutput:
    """Run all checks on this worker and show the findings."""
    findings = examine(context.environ)
    return as_json(findings) if options.json else findings_output(findings)


def findings_output(findings: Sequence[Finding]) -> MagicOutput:
    """Return the findings as a table, faults first, and a list of fixes."""
    rows = [(state_text(each.state), each.check, each.text) for each in sorted(findings, key=_rank)]
    fixes = [
        Text("{topic}: {text}", topic=each.check, text=each.fix) for each in findings if each.fix and each.state != OK
    ]
    found = Section(title=summary(findings), header=("", Text("check"), Text("finding")), rows=rows)
    return MagicOutput(sections=[found, *([Section(title=Text("What to do"), lines=fixes)] if fixes else [])])


def _rank(finding: Finding) -> int:
    return _ORDER.index(finding.state) if finding.state in _ORDER else len(_ORDER)


def as_json(findings: Sequence[Finding]) -> MagicOutput:
    """Return the findings as one JSON document for programs, never shortened."""
    import json

    text = json.dumps([each.to_json() for each in findings], indent=1)
    return MagicOutput(sections=[Section(verbatim=text.splitlines())])
