"""What the audit log says of what failed, and of what the user requested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cli import main
from jupyter_tpu.cli.spend.audit import _row
from jupyter_tpu.journal.audit import Entry


@pytest.mark.parametrize(
    ("detail", "action", "reason"),
    [
        ({}, "Stop", "A reason."),
        ({"error": {"message": "Refused."}}, "Stop (failed)", "A reason. The action failed: Refused."),
        ({"error": {}}, "Stop (failed)", "A reason. The action failed: unknown"),
    ],
)
def test_what_failed_is_not_shown_as_done(detail: dict[str, Any], action: str, reason: str) -> None:
    entry = Entry(at=0.0, action="stop", subject="a-node", reason="A reason.", detail=detail)
    assert _row(entry) == ("1970-01-01 00:00:00", action, "a-node", reason)


def test_the_words_of_the_journal_are_shown_as_names() -> None:
    def name(action: str) -> str:
        return _row(Entry(at=0.0, action=action, subject="", reason=""))[1]

    assert (name("budget_level"), name("recover-off"), name("unqueue"), name("keep"), name("of a later version")) == (
        *("Budget use", "Auto-recovery off", "Remove from queue", "Keep running"),
        "of a later version",
    )


def test_what_the_user_creates_and_deletes_is_in_the_log(
    capsys: pytest.CaptureFixture[str], data_dir: Path, emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_TPU_ENDPOINT", emulator.grpc)
    monkeypatch.setenv("JUPYTER_TPU_PROJECT", emulator.project)
    at = ("my-node", "--zone", emulator.zone)
    assert main(("create", *at, "--type", emulator.accelerator_type, "--yes")) == 0
    assert main(("delete", *at, "--yes")) == 0
    capsys.readouterr()
    assert main(("audit", "--json")) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [(each["action"], each["reason"]) for each in entries if each["subject"].endswith("/my-node")] == [
        ("delete", "The user requested this action."),
        ("create", f"The user requested a {emulator.accelerator_type}."),
    ]
