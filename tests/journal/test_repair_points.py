"""A process is killed before each step of repairing a journal: the next one repairs it as well and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit
from jupyter_tpu.journal.repair import DAMAGE

PROGRAM = Path(__file__).with_name("repair_points.py")
PROJECT = "demo-project"
HERE = {"endpoint": "", "project": PROJECT}
CONFIRMED = "The user confirmed the budgets after the journal was damaged."

_REPAIR = [
    "open journal.db.lock",
    "tempfile.mkdtemp scratch",
    "shutil.copyfile journal.db scratch/damaged",
    "open scratch/damaged",
    "shutil.copyfile journal.db-wal scratch/damaged-wal",
    "open scratch/damaged-wal",
    "open scratch/damaged",
    "open scratch/journal.db",
    "os.rename scratch/journal.db journal.db.damaged.mended",
    "shutil.rmtree scratch",
    "os.link journal.db journal.db.damaged",
    "os.rename journal.db-wal journal.db.damaged-wal",
    "os.rename journal.db-shm journal.db.damaged-shm",
    "os.rename journal.db.damaged.mended journal.db",
    "os.chmod journal.db",
]
STEPS = {
    "make": [
        "open journal.db.lock",
        "tempfile.mkdtemp scratch",
        "open scratch/journal.db",
        "os.rename scratch/journal.db journal.db",
        "shutil.rmtree scratch",
        "os.chmod journal.db",
    ],
    "repair": _REPAIR,
    "repair what has lost a budget": _REPAIR,
    "confirm": ["transaction", "transaction"],
}
ENDS = {
    "make": {"budgets": [], "is closed": False, "damage": 0, "confirmed": 0},
    "repair": {"budgets": [("daily", 20.0), ("weekly", 20.0)], "is closed": False, "damage": 1, "confirmed": 0},
    "repair what has lost a budget": {
        "budgets": [("weekly", 90.0), ("lost-budgets", None)],
        "is closed": True,
        "damage": 1,
        "confirmed": 0,
    },
    "confirm": {"budgets": [], "is closed": False, "damage": 0, "confirmed": 1},
}
KEPT = {
    "make": b"",
    "repair": b"no SQLite at all",
    "repair what has lost a budget": b'"amount": 90.0',
    "confirm": b"this is no database",
}


@dataclass(frozen=True)
class Place:
    endpoint: str = ""
    project: str = PROJECT


def books(journal: Journal) -> SpendLedger:
    return SpendLedger(journal, Place())


def prepare(folder: Path, verb: str) -> None:
    folder.mkdir()
    if verb == "confirm":
        (folder / "journal.db").write_bytes(b"this is no database, " * 400)
        Journal.open(folder).close()


def play(folders: list[Path], verb: str) -> list[int]:
    """How each ended; the first one lives, and each other one dies a step later."""
    told = [
        {"verb": verb, "folder": str(folder), "dies_before": number - 1 if number else None}
        for number, folder in enumerate(folders)
    ]
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(told),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    ends: list[int] = json.loads(done.stdout)
    return ends


@contextmanager
def opened(folder: Path) -> Iterator[Journal]:
    """By the next process, and by one more after it."""
    Journal.open(folder).close()
    with closing(Journal.open(folder)) as journal:
        yield journal


def said(journal: Journal) -> dict[str, Any]:
    """What the user has of it."""
    account = books(journal).account(2000.0)
    entries = Audit(journal, **HERE).newest()
    return {
        "budgets": [(budget.name, getattr(budget, "amount", None)) for budget in account.budgets],
        "is closed": bool(account.broken()),
        "damage": [entry.action for entry in entries].count(DAMAGE),
        "confirmed": [entry.reason for entry in entries].count(CONFIRMED),
    }


def kept(folder: Path) -> set[bytes]:
    return {each.read_bytes() for each in folder.glob("journal.db.damaged-*")}


@pytest.mark.parametrize("verb", STEPS)
def test_whatever_step_a_process_dies_at_the_next_one_comes_to_the_same_end(tmp_path: Path, verb: str) -> None:
    folders = [tmp_path / f"{number}" for number in range(len(STEPS[verb]) + 1)]
    for folder in folders:
        prepare(folder, verb)
    ends = play(folders, verb)
    reached = json.loads((tmp_path / "0.json").read_text())
    assert reached == STEPS[verb], "each step has its case, and each case its step"
    assert ends == [0, *[-signal.SIGKILL] * len(STEPS[verb])]

    for folder in folders:
        with opened(folder) as journal:
            if verb == "confirm":
                books(journal).confirm_budgets(now=4000.0)
            assert said(journal) == ENDS[verb], folder
        assert any(KEPT[verb] in content for content in kept(folder)) == bool(KEPT[verb]), folder
        assert list(folder.glob("*.mended")) == []
        with closing(sqlite3.connect(folder / "journal.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_what_a_dead_process_left_half_made_is_removed_by_the_next_that_makes_or_repairs(tmp_path: Path) -> None:
    (tmp_path / ".journal-dead").mkdir()
    (tmp_path / ".journal-dead" / "damaged").write_bytes(b"a copy")
    Journal.open(tmp_path).close()
    assert [each.name for each in tmp_path.glob(".journal-*")] == []


def test_a_journal_whose_repair_was_cut_off_is_not_opened_where_it_cannot_be_ended(tmp_path: Path) -> None:
    Journal.open(tmp_path).close()
    (tmp_path / "journal.db.damaged-20261122T000000.mended" / "something").mkdir(parents=True)
    with closing(Journal.open(tmp_path)) as journal, pytest.raises(JournalUnwritable):
        books(journal).account(2000.0)
