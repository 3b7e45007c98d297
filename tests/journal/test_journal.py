"""The journal: what is written is there after a death, shared by processes, and never silently lost."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.errors import JournalUnwritable, NodeExists, QuotaExceeded, WrongState
from jupyter_tpu.journal import Journal, data_dir
from jupyter_tpu.journal.journal import ClaimLost
from jupyter_tpu.journal.owner import is_gone, new_owner
from jupyter_tpu.journal.paths import trial_dir
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName, NodeSpec

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite")


HERE = {"endpoint": "", "project": NAME.project}


def wish(intent_id: str, verb: Any = "create", **changes: Any) -> Intent:
    spec = SPEC if verb == "create" else None
    return replace(Intent(intent_id=intent_id, verb=verb, node_name=NAME, spec=spec), **changes)


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    opened = Journal.open(tmp_path)
    yield opened
    opened.close()


def test_every_file_of_a_journal_is_closed_to_other_users(tmp_path: Path) -> None:
    users = os.umask(0o022)
    try:
        journal = Journal.open(tmp_path)
        journal.begin(wish("a"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        journal.close()
    finally:
        os.umask(users)
    assert {f"journal.db{suffix}": 0o600 for suffix in ("", "-wal", "-shm", ".lock")} == modes


def test_an_intent_is_found_again_by_the_next_process(journal: Journal, tmp_path: Path) -> None:
    begun = journal.begin(wish("a"))
    journal.close()
    again = Journal.open(tmp_path)
    assert again.find("a") == begun
    assert again.notices == ()
    again.close()


def test_an_open_wish_that_means_the_same_is_given_back(journal: Journal) -> None:
    first = journal.begin(wish("a"))
    assert journal.begin(wish("b")) == first
    with pytest.raises(NodeExists, match="is being created"):
        journal.begin(wish("c", spec=replace(SPEC, spot=True)))
    with pytest.raises(WrongState):
        journal.begin(wish("d", "stop"))
    assert journal.begin(wish("e", "delete")).intent_id == "e"


def test_during_a_deletion_the_only_advice_is_to_wait(journal: Journal) -> None:
    journal.begin(wish("a", "delete"))
    with pytest.raises(NodeExists) as refused:
        journal.begin(wish("b"))
    assert refused.value.hint == "Wait until the deletion is finished."


def test_wishes_for_other_clouds_and_projects_are_kept_apart(journal: Journal) -> None:
    elsewhere = replace(NAME, project="another-project")
    begun = [
        journal.begin(wish("a")),
        journal.begin(wish("b", endpoint="127.0.0.1:1")),
        journal.begin(wish("c", "stop", node_name=elsewhere)),
    ]
    assert [each.intent_id for each in begun] == ["a", "b", "c"]
    clouds = (("", NAME.project), ("127.0.0.1:1", NAME.project), ("", elsewhere.project))
    assert [journal.listed(0.0, endpoint=each[0], project=each[1]) for each in clouds] == [(each,) for each in begun]


def test_a_journal_that_does_not_tell_clouds_apart_is_begun_anew(journal: Journal, tmp_path: Path) -> None:
    journal.begin(wish("a", "delete"))
    journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.executescript("DROP TABLE spans; DROP TABLE documents; DROP TABLE audit; PRAGMA user_version = 1")
    database.close()
    again = Journal.open(tmp_path)
    assert again.find("a") is None
    assert again.begin(wish("b", "delete")).intent_id == "b"
    again.close()


def test_two_journals_that_begin_at_once_agree_on_one_intent(tmp_path: Path) -> None:
    journals = [Journal.open(tmp_path) for _ in range(8)]
    chosen: list[str] = []
    threads = [
        threading.Thread(target=lambda each=each, n=n: chosen.append(each.begin(wish(f"w{n}")).intent_id))
        for n, each in enumerate(journals)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(chosen) == 8
    assert len(set(chosen)) == 1
    for each in journals:
        each.close()


def test_only_the_owner_may_change_an_intent(journal: Journal, tmp_path: Path) -> None:
    begun = journal.begin(wish("a"))
    other = Journal.open(tmp_path)
    with pytest.raises(ClaimLost):
        other.save(replace(begun, phase="asking"))
    assert other.claim("a") is None
    journal.release("a")
    claimed = other.claim("a")
    assert claimed is not None
    assert claimed.owner == other.owner
    with pytest.raises(ClaimLost):
        journal.save(replace(begun, phase="asking"))
    other.close()


def begin_and_die(folder: Path) -> None:
    Journal.open(folder).begin(wish("a"))
    os._exit(1)


def test_what_a_dead_process_left_goes_to_one_taker(journal: Journal, tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=begin_and_die, args=(tmp_path,))
    process.start()
    process.join()
    other = Journal.open(tmp_path)
    takers = [each.claim("a") for each in (journal, other)]
    assert [taker is not None for taker in takers] == [True, False]
    other.close()


def test_a_living_process_is_not_gone_and_a_dead_one_is() -> None:
    owner = new_owner()
    pid, started, number = owner.split(":")
    assert not is_gone(owner)
    assert is_gone(f"{pid}:{int(started) - 999}:{number}")
    assert is_gone("")
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert is_gone(f"{process.pid}:{started}:0")


def test_open_and_failed_intents_are_listed_until_dismissed(journal: Journal) -> None:
    first = journal.begin(wish("a", created_at=1.0))
    journal.save(replace(first, settled=True, phase="failed", error=QuotaExceeded("used up"), updated_at=9.0))
    second = journal.begin(wish("b", created_at=2.0, node_name=replace(NAME, node_id="other")))
    assert [each.intent_id for each in journal.listed(5.0, **HERE)] == ["a", "b"]
    assert [each.intent_id for each in journal.listed(10.0, **HERE)] == ["b"]
    journal.dismiss("a")
    assert [each.intent_id for each in journal.listed(5.0, **HERE)] == ["b"]
    with pytest.raises(WrongState):
        journal.dismiss("b")
    journal.save(replace(second, settled=True, phase="ready"))
    assert journal.listed(0.0, **HERE) == ()


def test_a_failure_is_not_listed_once_something_later_was_begun_about_its_node(journal: Journal) -> None:
    failed = {"settled": True, "phase": "failed", "error": QuotaExceeded("used up"), "updated_at": 9.0}
    for name, created_at in (("a", 1.0), ("b", 2.0)):
        journal.save(replace(journal.begin(wish(name, created_at=created_at)), **failed))
    assert [each.intent_id for each in journal.listed(5.0, **HERE)] == ["b"]
    third = journal.begin(wish("c", created_at=3.0))
    assert [each.intent_id for each in journal.listed(5.0, **HERE)] == ["c"]
    journal.save(replace(third, settled=True, phase="ready", updated_at=9.0))
    assert journal.listed(5.0, **HERE) == ()


@pytest.mark.parametrize("body", ["{", "[]", '{"intent_id": "a"}', "null"])
def test_a_damaged_intent_keeps_nobody_from_the_others(journal: Journal, tmp_path: Path, body: str) -> None:
    journal.begin(wish("a"))
    other = journal.begin(wish("b", "delete", node_name=replace(NAME, node_id="other"), spec=None))
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as database, database:
        database.execute("UPDATE intents SET body = ? WHERE intent_id = 'a'", (body,))
    assert journal.listed(0.0, **HERE) == (other,)
    assert journal.intents_about(NAME, endpoint=HERE["endpoint"], since=0.0) == ()
    assert journal.begin(wish("c", "delete", spec=None)).intent_id == "c"


def test_the_history_keeps_every_phase(journal: Journal) -> None:
    begun = journal.begin(wish("a"))
    journal.save(replace(begun, phase="asking", updated_at=2.0))
    assert [(each["phase"], each["at"]) for each in journal.history("a")] == [("requested", 0.0), ("asking", 2.0)]


@pytest.mark.parametrize("damage", [b"this is no database, " * 400, b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_damaged_journal_is_put_aside_and_said(journal: Journal, tmp_path: Path, damage: bytes) -> None:
    journal.close()
    (tmp_path / "journal.db").write_bytes(damage)
    again = Journal.open(tmp_path)
    (aside,) = tmp_path.glob("journal.db.damaged-*")
    assert aside.read_bytes() == damage
    assert str(aside) in again.notices[0]
    assert again.begin(wish("a")).intent_id == "a"
    again.close()


def test_a_newer_journal_is_left_alone(journal: Journal, tmp_path: Path) -> None:
    journal.begin(wish("a"))
    journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    again = Journal.open(tmp_path)
    with pytest.raises(JournalUnwritable, match="written by a newer jupyter_tpu") as refused:
        again.begin(wish("b"))
    assert "pip install --upgrade" in refused.value.hint
    assert "newer jupyter_tpu" in again.notices[0]
    assert list(tmp_path.glob("*damaged*")) == []


def test_a_folder_that_cannot_be_written_refuses_intents(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    journal = Journal.open(tmp_path / "file")
    with pytest.raises(JournalUnwritable) as refused:
        journal.begin(wish("a"))
    assert refused.value.exists == "No request was sent to the cloud."


FULL_DISK = """
import resource, sys
from pathlib import Path
from jupyter_tpu.errors import JournalUnwritable
from jupyter_tpu.journal import Journal
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NodeName
journal = Journal.open(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
name = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
try:
    journal.begin(Intent(intent_id="a", verb="delete", node_name=name))
except JournalUnwritable as error:
    print(error.exists, journal.find("a"))
"""


def test_a_full_disk_refuses_intents_and_keeps_the_rest(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "No request was sent to the cloud. None\n"


def test_settled_intents_are_forgotten_after_a_quarter_with_their_history(journal: Journal, tmp_path: Path) -> None:
    begun = journal.begin(wish("a"))
    journal.save(replace(begun, settled=True, phase="ready", updated_at=1.0))
    journal.begin(wish("b", "delete"))
    journal.close()
    again = Journal.open(tmp_path)
    assert (again.find("a"), again.history("a")) == (None, ())
    assert again.find("b") is not None
    again.close()


def test_a_closed_journal_says_so(journal: Journal) -> None:
    journal.close()
    with pytest.raises(JournalUnwritable, match="it is closed"):
        journal.begin(wish("a"))


def test_the_data_folder_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "deep" / "tpu"))
    assert data_dir() == tmp_path / "deep" / "tpu"
    assert data_dir().stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "file" / "tpu"))
    with pytest.raises(JournalUnwritable, match="cannot be created"):
        data_dir()


def test_the_folder_of_the_emulated_cloud_is_as_private(data_dir: Path) -> None:
    assert trial_dir().stat().st_mode & 0o777 == 0o700
    trial_dir().rmdir()
    (data_dir / "emulated-cloud").write_text("in the way")
    with pytest.raises(JournalUnwritable, match="cannot be created"):
        trial_dir()


def created(
    journal: Journal, intent_id: str, seconds: float, *, phase: str = "ready", kind: str = "v5litepod-8"
) -> None:
    """A creation that began at 1000 and ended so many seconds later."""
    name = NodeName(project=NAME.project, zone=NAME.zone, node_id=intent_id)
    spec = NodeSpec(name=name, accelerator_type=kind, runtime_version="tpu-ubuntu2204-base")
    begun = journal.begin(
        Intent(intent_id=intent_id, verb="create", node_name=name, spec=spec, created_at=1000.0, updated_at=1000.0)
    )
    journal.save(replace(begun, phase=phase, settled=True, updated_at=1000.0 + seconds))


def test_the_usual_time_of_a_creation_is_the_median_of_those_that_succeeded(journal: Journal) -> None:
    for number, seconds in enumerate((60.0, 300.0, 90.0)):
        created(journal, f"n-{number}", seconds)
    created(journal, "failed", 5.0, phase="failed")
    created(journal, "other", 20.0, kind="v2-8")

    assert journal.creation_seconds(endpoint="") == {("v5litepod-8", NAME.zone): 90.0, ("v2-8", NAME.zone): 20.0}
    assert journal.creation_seconds(endpoint="another cloud") == {}
