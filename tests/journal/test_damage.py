"""A journal that is damaged at any byte: what it said of money is as it was, or nothing may be spent."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.fleet.spend.spend_ledger import LOST, SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.ledger import Ledger
from jupyter_tpu.journal.user_documents import Documents
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName, NodeSpec
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")
HERE = {"endpoint": "", "project": NAME.project}
WEEKLY = {"amount": 20.0, "unit": "usd", "period": "week"}
GRANT = {"kind": "credit", "starts_on": "2026-01-01", "ends_on": "2026-03-31", "usd": 300.0}
NOW = 2000.0


@dataclass(frozen=True)
class Place:
    endpoint: str = ""
    project: str = NAME.project


def books(journal: Journal, project: str = NAME.project) -> SpendLedger:
    return SpendLedger(journal, Place(project=project))


def fill(folder: Path) -> None:
    """A budget, a grant, what was spent, an open wish, and a log that is longer than all of them."""
    journal = Journal.open(folder)
    books(journal).set_budget("weekly", WEEKLY, now=1.0)
    Documents(journal, **HERE).put("grant", "credit", GRANT, now=1.0)
    journal.begin(Intent(intent_id="a", verb="create", node_name=NAME, spec=SPEC, created_at=1.0, updated_at=1.0))
    sight = ObservedNode(name=NAME, uid="7", accelerator_type="v5litepod-8", spot=False, usd_per_hour=9.6)
    for at in (100.0, 1900.0):
        Ledger(journal, **HERE).record(NodesObservation(as_of=at, ready=(sight,)))
    for number in range(6):
        Audit(journal, **HERE).record(Entry(at=number, action="keep", subject="n", reason="a long story " * 150))
    journal.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a filled journal."""
    folder = tmp_path_factory.mktemp("whole")
    fill(folder)
    return (folder / "journal.db").read_bytes()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """Opens a journal that consists of these bytes."""
    journals: list[Journal] = []

    def open_it(content: bytes) -> Journal:
        (tmp_path / "journal.db").write_bytes(content)
        journals.append(Journal.open(tmp_path))
        return journals[-1]

    yield open_it
    for journal in journals:
        journal.close()


def said(journal: Journal) -> tuple[Any, ...]:
    """What it says of money."""
    account = books(journal).account(NOW)
    return account.budgets, account.spans, Documents(journal, **HERE).all("grant")[0].body


def aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("journal.db.damaged-*"))


def is_closed(journal: Journal) -> bool:
    """Whether nothing may be spent, and it is said why."""
    try:
        broken = books(journal).account(NOW).broken()
    except JournalUnwritable:
        return bool(journal.notices)
    return books(journal).has_budgets() and bool(broken)


def standing(journal: Journal, folder: Path, content: bytes) -> str:
    """``same``, ``carried`` or ``closed``; anything else is a fault."""
    if aside(folder):
        assert [each.read_bytes() for each in aside(folder)] == [content]
        assert str(aside(folder)[0]) in journal.notices[0]
    if is_closed(journal):
        return "closed"
    assert said(journal)[0][0].to_json() == {**WEEKLY, "resets_on": "monday", "resets_at": "00:00", "action": "stop"}
    assert [(each.began_at, each.ended_at, each.usd_per_hour) for each in said(journal)[1]] == [(100.0, 1900.0, 9.6)]
    assert said(journal)[2] == GRANT
    return "carried" if aside(folder) else "same"


HEADER = (0, 15, 16, 17, 18, 19, 20, 21, 24, 28, 31, 39, 47, 52, 59, 60, 63, 70, 95, 99, 100, 103, 107, 110)


def positions(size: int) -> list[int]:
    chosen = random.Random(5)
    return [*HEADER, *(chosen.randrange(size) for _ in range(40))]


def test_whatever_byte_is_damaged_budgets_hold_or_nothing_may_be_spent(whole: bytes, tmp_path: Path) -> None:
    found = set()
    for number, at in enumerate(positions(len(whole))):
        folder = tmp_path / str(number)
        folder.mkdir()
        content = whole[:at] + bytes([whole[at] ^ (1 + at % 255)]) + whole[at + 1 :]
        (folder / "journal.db").write_bytes(content)
        with closing(Journal.open(folder)) as journal:
            found.add(standing(journal, folder, content))
    assert found == {"same", "carried", "closed"}


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.6, 0.999])
def test_a_journal_that_was_cut_off_allows_nothing_until_the_user_has_looked(
    whole: bytes, opened: Any, tmp_path: Path, part: float
) -> None:
    journal = opened(whole[: int(len(whole) * part)])
    assert len(aside(tmp_path)) == 1
    if part < 0.5:
        assert is_closed(journal)
    books(journal).confirm_budgets(now=3.0)
    assert not is_closed(journal)


def test_an_amount_that_reads_well_and_is_not_what_was_set_is_noticed(whole: bytes, opened: Any) -> None:
    journal = opened(whole.replace(b'"amount": 20.0, "unit": "usd"', b'"amount": 90.0, "unit": "usd"', 1))
    assert is_closed(journal)
    (lost,) = books(journal).account(NOW).broken()
    assert lost.name == LOST
    assert "jupyter_tpu found that the journal was damaged" in lost.error.message
    assert ".damaged-" in lost.error.exists
    assert "`jupyter tpu budget confirm`" in lost.error.hint


def test_damage_elsewhere_closes_nothing(whole: bytes, opened: Any, tmp_path: Path) -> None:
    content = whole.replace(b"intents", b"intentz")
    journal = opened(content)
    assert standing(journal, tmp_path, content) == "carried"
    actions = [entry.action for entry in Audit(journal, **HERE).newest()]
    assert (actions[0], len(actions)) == ("journal_damaged", 8)
    assert journal.begin(Intent(intent_id="b", verb="delete", node_name=NAME)).intent_id == "b"


@pytest.mark.parametrize("way", ["confirm", "set", "remove"])
def test_each_project_is_open_again_when_its_budgets_are_confirmed(opened: Any, way: str) -> None:
    journal = opened(b"this is no database, " * 400)
    mine = books(journal)
    assert is_closed(journal)
    if way == "confirm":
        assert mine.confirm_budgets(now=3.0)
    elif way == "set":
        mine.set_budget("weekly", WEEKLY, now=3.0)
    else:
        mine.remove_budget(LOST, now=3.0)
    assert mine.account(NOW).broken() == []
    assert not mine.confirm_budgets(now=4.0)
    assert books(journal, "other-project").has_budgets()


def test_what_was_damaged_stays_so_for_the_next_process_until_it_is_confirmed(opened: Any, tmp_path: Path) -> None:
    opened(b"this is no database, " * 400).close()
    again = Journal.open(tmp_path)
    assert again.notices == ()
    assert is_closed(again)
    assert len(aside(tmp_path)) == 1
    again.close()


def test_what_a_dead_process_had_not_yet_put_into_the_file_is_carried_over_too(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(whole)
    living, died = Journal.open(tmp_path), tmp_path / "died"
    died.mkdir()
    books(living).set_budget("daily", {**WEEKLY, "period": "day"}, now=2.0)
    for suffix in ("", "-wal"):
        shutil.copyfile(tmp_path / f"journal.db{suffix}", died / f"journal.db{suffix}")
    living.close()
    with (died / "journal.db").open("r+b") as file:
        file.write(b"no SQLite at all")
    journal = Journal.open(died)
    assert [each.name for each in books(journal).account(NOW).budgets] == ["daily", "weekly"]
    journal.close()


def test_of_processes_that_find_the_damage_at_once_one_repairs_it(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"no SQLite at all" + whole[16:])
    journals: list[Journal] = []
    threads = [threading.Thread(target=lambda: journals.append(Journal.open(tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(aside(tmp_path)) == 1
    assert [len(each.notices) for each in journals].count(1) == 1
    for each in journals:
        assert [budget.name for budget in books(each).account(NOW).budgets] == ["weekly"]
        each.close()


def test_a_process_that_has_it_open_goes_on_in_the_one_that_took_its_place(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(whole)
    server = Journal.open(tmp_path)
    server.begin(Intent(intent_id="early", verb="stop", node_name=NAME, endpoint="127.0.0.1:1"))
    with (tmp_path / "journal.db").open("r+b") as file:
        file.write(b"no SQLite at all")
    command = Journal.open(tmp_path)
    books(command).set_budget("daily", {**WEEKLY, "period": "day"}, now=2.0)
    assert {each.name for each in books(server).account(NOW).budgets} == {"daily", "weekly"}
    server.begin(Intent(intent_id="late", verb="delete", node_name=NAME))
    assert command.find("late") is not None
    assert command.find("early") is not None
    server.close()
    command.close()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
