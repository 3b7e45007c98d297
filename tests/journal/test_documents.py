"""What the user has laid down, and the log that only grows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu.errors import JournalUnwritable, ShownTime, Text
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.user_documents import Documents

LAYOUT_2 = """
CREATE TABLE intents (
    intent_id TEXT PRIMARY KEY, endpoint TEXT NOT NULL, node_name TEXT NOT NULL, verb TEXT NOT NULL,
    settled INTEGER NOT NULL, dismissed INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL, created_at REAL NOT NULL,
    updated_at REAL NOT NULL, body TEXT NOT NULL
);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, intent_id TEXT NOT NULL REFERENCES intents ON DELETE CASCADE,
    at REAL NOT NULL, phase TEXT NOT NULL, message TEXT NOT NULL, error_code TEXT NOT NULL
);
INSERT INTO intents VALUES ('kept', '', 'n', 'delete', 0, 0, 'somebody', 1.0, 1.0, '{}');
PRAGMA user_version = 2;
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path)
    yield journal
    journal.close()


def documents(journal: Journal, project: str = "p", endpoint: str = "") -> Documents:
    return Documents(journal, endpoint=endpoint, project=project)


def test_a_document_is_kept_by_kind_and_name(journal: Journal) -> None:
    documents(journal).put("budget", "weekly", {"usd": 5}, now=1.0)
    documents(journal).put("budget", "weekly", {"usd": 6}, now=2.0)
    documents(journal).put("grant", "weekly", {"chips": 32}, now=3.0)
    (budget,) = documents(journal).all("budget")
    assert (budget.name, budget.body, budget.updated_at) == ("weekly", {"usd": 6}, 2.0)
    assert documents(journal).remove("budget", "weekly")
    assert documents(journal).get("budget", "weekly") is None
    assert not documents(journal).remove("budget", "weekly")
    assert documents(journal).get("grant", "weekly") is not None


def test_projects_and_clouds_do_not_see_each_other(journal: Journal) -> None:
    documents(journal).put("budget", "weekly", {}, now=1.0)
    assert documents(journal, project="other").all("budget") == ()
    assert documents(journal, endpoint="127.0.0.1:1").all("budget") == ()


def test_a_damaged_document_is_an_error_and_never_left_out(journal: Journal, tmp_path: Path) -> None:
    documents(journal).put("budget", "weekly", {}, now=1.0)
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE documents SET body = '[1'")
    with pytest.raises(JournalUnwritable, match="'weekly' in the journal is damaged"):
        documents(journal).all("budget")
    documents(journal).put("budget", "weekly", {"usd": 1}, now=2.0)
    assert documents(journal).get("budget", "weekly") is not None


@pytest.mark.parametrize(("kind", "section"), [("budget", "spend"), ("grant", "grants")])
def test_a_damaged_document_leads_to_its_place_in_the_panel(
    journal: Journal, tmp_path: Path, kind: str, section: str
) -> None:
    documents(journal).put(kind, "weekly", {}, now=1.0)
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE documents SET body = '[1'")
    with pytest.raises(JournalUnwritable) as refused:
        documents(journal).all(kind)
    assert [each.args["section"] for each in refused.value.actions] == [section]


def test_a_damaged_document_hides_no_other_of_its_kind(journal: Journal, tmp_path: Path) -> None:
    documents(journal).put("recovery", "another", {}, now=1.0)
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE documents SET body = '[1'")
    documents(journal).put("recovery", "mine", {"is_on": True}, now=1.0)
    found = documents(journal).get("recovery", "mine")
    assert found is not None
    assert found.body == {"is_on": True}


def test_the_audit_log_shows_the_newest_first_and_only_grows(journal: Journal, tmp_path: Path) -> None:
    audit = Audit(journal, endpoint="", project="p")
    for number in range(3):
        audit.record(Entry(at=number, action="keep", subject="n", reason="asked for", detail={"number": number}))
    assert [entry.detail["number"] for entry in audit.newest(2)] == [2, 1]
    assert Audit(journal, endpoint="", project="other").newest() == ()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        for statement in ("DELETE FROM audit", "UPDATE audit SET reason = 'another'"):
            with pytest.raises(sqlite3.IntegrityError, match="append only"):
                database.execute(statement)


def test_a_reason_of_the_audit_log_can_be_translated_and_its_time_formatted(journal: Journal) -> None:
    audit = Audit(journal, endpoint="", project="p")

    def entry(at: float) -> Entry:
        reason = Text("It ended at {time}.", time=ShownTime("2026-11-27 09:00", at))
        return Entry(at=1.0, action="ended", subject="n", reason=reason, detail={"uid": "u"})

    assert audit.record_once(entry(100.0))
    # the detail tells whether a line is new, not its words
    assert not audit.record_once(entry(200.0))
    (found,) = audit.newest()
    assert found == entry(100.0)
    shown = found.to_json()
    assert shown["templates"] == {"reason": "It ended at {time}."}
    assert shown["times"] == {"time": 100.0}
    assert shown["detail"] == {"uid": "u"}


def test_the_layout_before_keeps_its_intents(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.executescript(LAYOUT_2)
    journal = Journal.open(tmp_path)
    documents(journal).put("budget", "weekly", {}, now=1.0)
    journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        assert database.execute("SELECT intent_id FROM intents").fetchall() == [("kept",)]
