"""What the audit log says of what failed."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.cli.spend.audit import _row
from jupyter_tpu.journal.audit import Entry


@pytest.mark.parametrize(
    ("detail", "action", "reason"),
    [
        ({}, "stop", "A reason."),
        ({"error": {"message": "The cloud refused."}}, "stop (failed)", "A reason. It failed: The cloud refused."),
        ({"error": {}}, "stop (failed)", "A reason. It failed: unknown"),
    ],
)
def test_what_failed_is_not_shown_as_done(detail: dict[str, Any], action: str, reason: str) -> None:
    entry = Entry(at=0.0, action="stop", subject="a-node", reason="A reason.", detail=detail)
    assert _row(entry) == ("1970-01-01 00:00:00", action, "a-node", reason)
