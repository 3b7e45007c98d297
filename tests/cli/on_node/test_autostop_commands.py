"""`autostop` and `keep` in a terminal."""

from __future__ import annotations

import datetime
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from jupyter_tpu.cli.command_line import run
from jupyter_tpu.durations import parse_time_of_day

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"


def test_a_node_is_ruled_and_kept_from_a_terminal(terminal: Terminal) -> None:
    assert "is READY" in terminal.tpu("create", "braked", "--zone", ZONE, "--type", "v5litepod-8", "--yes").stdout
    ruled = terminal.tpu_json("autostop", "braked", "--idle", "2h", "--session", "12h", "--action", "delete")
    assert (ruled["idle_after_s"], ruled["session_s"], ruled["action"]) == (7200, 43200, "delete")
    assert {each["source"] for each in ruled["sources"]} >= {"execution", "accelerator", "human", "output"}
    assert terminal.tpu_json("autostop", "braked", "--unattended", "90m")["unattended_after_s"] == 5400
    assert terminal.tpu_json("autostop", "braked", "--unattended", "off")["unattended_after_s"] is None

    kept = terminal.tpu_json("extend", "braked", "--for", "3h")
    assert kept["kept_until"] - time.time() == pytest.approx(3 * 3600, abs=300)
    assert "extended" in terminal.tpu_until("guard on the node: on", "autostop", "braked")
    assert "braked" in terminal.tpu("autostop").stdout
    assert terminal.tpu_json("extend", "braked", "--off")["kept_until"] is None

    refused = terminal.tpu("autostop", "braked", "--idle", "soon")
    assert (refused.returncode, "is not a duration" in refused.stderr) == (1, True)
    audit = [entry["action"] for entry in terminal.tpu_json("audit")["entries"]]
    assert audit.count("keep") == 2
    assert "brakes" in audit


@pytest.mark.nightly
def test_the_list_reminds_of_a_node_that_was_billed_for_a_day_without_a_human_act(terminal: Terminal) -> None:
    assert "is READY" in terminal.tpu("create", "billed", "--zone", ZONE, "--type", "v5litepod-8", "--yes").stdout
    assert terminal.tpu_json("list")["reminders"] == []
    with closing(sqlite3.connect(terminal.home / "tpu" / "journal.db")) as database, database:
        database.execute("UPDATE spans SET began_at = began_at - 26 * 3600 WHERE node_name LIKE '%/billed'")
    (reminded,) = terminal.tpu_json("list")["reminders"]
    assert (reminded["days"], reminded["usd"]) == (1, pytest.approx(26 * 9.6, rel=0.1))
    listed = terminal.tpu("list")
    assert "billed has been billed for 26 h" in listed.stdout + listed.stderr
    terminal.tpu("extend", "billed")
    assert terminal.tpu_json("list")["reminders"] == []

    with closing(sqlite3.connect(terminal.home / "tpu" / "journal.db")) as database, database:
        database.execute("UPDATE spans SET began_at = began_at - 26 * 3600 WHERE node_name LIKE '%/billed'")
        database.execute("UPDATE documents SET updated_at = updated_at - 25 * 3600 WHERE name LIKE '%/billed'")
    terminal.cloud.add_fault("*", "clock_skew", seconds=-3 * 3600)  # people act by this computer's clock
    try:
        (reminded,) = terminal.tpu_json("list")["reminders"]
        assert reminded["days"] == 1
    finally:
        terminal.cloud.clear_faults()


@pytest.mark.parametrize("text", ["18", "25:00", "noon", "18:60", ""])
def test_what_is_no_time_of_a_day_is_refused(text: str) -> None:
    assert parse_time_of_day(text, time.time()) is None


@pytest.mark.parametrize(("hour", "day"), [(11, 2), (13, 1)])
def test_a_time_of_the_day_is_the_next_one(hour: int, day: int) -> None:
    noon = datetime.datetime(2026, 6, 1, 12).timestamp()
    assert parse_time_of_day(f"{hour}:00", noon) == datetime.datetime(2026, 6, day, hour).timestamp()


def test_a_node_is_kept_for_400_days_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extend", "my-node", "--for", "999999999d"]) == 1
    assert "400 days at most" in capsys.readouterr().err
