"""What is broken, absurd or taken away midway spends nothing, and is said in words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cli import main

HERE = ("--zone", "us-central1-a")
V5E = ("--type", "v5litepod-8", *HERE)
WEEKLY = ("set", "weekly", "--usd", "20", "--per", "week")

Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tpu(capsys: pytest.CaptureFixture[str], data_dir: Path, emulator: Any, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """`jupyter tpu` in this process, on an emulated cloud."""
    monkeypatch.setenv("JUPYTER_TPU_ENDPOINT", emulator.grpc)
    monkeypatch.setenv("JUPYTER_TPU_PROJECT", emulator.project)

    def ask(*argv: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        code = main(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return ask


def budgets(tpu: Ask) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(tpu("budget", "--json")[1])["budgets"]
    return found


def test_a_damaged_journal_allows_nothing_until_the_budgets_are_confirmed(
    tpu: Ask, data_dir: Path, emulator: Any
) -> None:
    assert tpu("budget", *WEEKLY)[0] == 0
    (data_dir / "journal.db").write_bytes(b"this is no database, " * 400)
    code, _, said = tpu("create", "mine", *V5E, "--yes")
    assert code == 1
    assert "warning: The journal was damaged. The damaged file is kept as " in said
    assert "budgets, or records of their usage, may be lost" in said
    assert "`jupyter tpu budget confirm`" in said
    (lost,) = budgets(tpu)
    assert (lost["name"], lost["level"]) == ("lost-budgets", "100")
    assert "nothing can be created" in tpu("budget")[1]
    assert emulator.control.billing() == []

    assert "The budgets are confirmed." in tpu("budget", "confirm")[1]
    assert json.loads(tpu("budget", "confirm", "--json")[1])["confirmed"] is False
    assert budgets(tpu) == []
    assert "was damaged" in tpu("audit")[1]


def test_a_journal_of_a_newer_version_is_read_by_nobody_and_changed_by_nobody(
    tpu: Ask, data_dir: Path, emulator: Any
) -> None:
    assert tpu("budget", *WEEKLY)[0] == 0
    with closing(sqlite3.connect(data_dir / "journal.db")) as database:
        database.execute("PRAGMA user_version = 99")
    before = (data_dir / "journal.db").read_bytes()
    for command in (("create", "mine", *V5E, "--yes"), ("budget", "set", "weekly", "--usd", "9", "--per", "day")):
        code, _, said = tpu(*command)
        assert code == 1
        assert "was written by a newer jupyter_tpu" in said
        assert "pip install --upgrade" in said
    assert tpu("list")[0] == 0
    assert (data_dir / "journal.db").read_bytes() == before
    assert list(data_dir.glob("*damaged*")) == []
    assert emulator.control.billing() == []


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        ("UNAUTHENTICATED", "Request had invalid authentication credentials.", "gcloud auth application-default login"),
        ("PERMISSION_DENIED", "Project demo-project has been deleted.", "demo-project"),
    ],
    ids=["token revoked", "project gone"],
)
def test_a_cloud_that_is_taken_away_midway_leaves_the_books_as_they_are(
    tpu: Ask, emulator: Any, code: str, message: str, words: str
) -> None:
    assert tpu("budget", *WEEKLY)[0] == 0
    emulator.control.add_fault("*", "error", code=code, message=message, times=None)
    refused, _, said = tpu("create", "mine", *V5E, "--yes")
    assert refused == 1
    assert words in said
    assert "Traceback" not in said
    (weekly,) = budgets(tpu)
    assert (weekly["name"], weekly["error"], weekly["used"]) == ("weekly", None, 0)
    spent = json.loads(tpu("cost", "--json")[1])
    assert (spent["is_complete"], spent["as_of"]) == (False, None)
    assert tpu("cleanup", "--delete-leftovers")[0] == 1
    emulator.control.clear_faults()
    assert emulator.control.ledger()["nodes"] == []


@pytest.mark.parametrize("amount", ["0", "-5", "nan", "inf", "1e12"])
def test_a_cap_that_is_no_cap_is_refused(tpu: Ask, amount: str) -> None:
    code, _, said = tpu("budget", "set", "mine", f"--usd={amount}", "--per", "day")
    assert code == 1
    assert "is not an amount for a budget" in said
    assert budgets(tpu) == []


@pytest.mark.parametrize(
    "wanted",
    [
        ("--row=-5 spot v5e us-central1-a", "--days", "30"),
        ("--row", "0 spot v5e us-central1-a", "--days", "30"),
        ("--row", "99999999999999 spot v5e us-central1-a", "--days", "30"),
        ("--row", "64 spot v5e us-central1-a", "--days", "0"),
        ("--row", "64 spot v5e us-central1-a", "--days", "100000"),
        ("--credit=-300", "--days", "90"),
        ("--credit=nan", "--days", "90"),
    ],
)
def test_an_absurd_grant_covers_nothing(tpu: Ask, wanted: tuple[str, ...]) -> None:
    code, _, said = tpu("grant", "add", "mine", "--starts-on", "2026-01-01", *wanted)
    assert code == 1
    assert "error: " in said
    assert json.loads(tpu("grant", "list", "--json")[1])["grants"] == []
