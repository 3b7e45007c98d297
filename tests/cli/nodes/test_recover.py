"""`jupyter tpu recover`, as typed in a terminal."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_tpu.journal import Journal

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"


def test_a_choice_is_made_shown_and_taken_back(terminal: Terminal) -> None:
    assert "Auto-recovery is off for all nodes" in terminal.tpu("recover").stderr
    terminal.tpu("create", "mine", "--type", "v5litepod-8", "--zone", ZONE, "--spot")

    chosen = terminal.tpu("recover", "mine", "--on", "--attempts", "2", "--max-usd", "12.5")
    assert chosen.returncode == 0, chosen.stderr
    assert "recreated after a pre-emption, with at most 2 attempts each time, until it has cost $12.50" in chosen.stdout
    assert "0 of 2" in terminal.tpu("recover", "mine").stdout
    (shown,) = terminal.tpu_json("recover")["choices"]
    assert (shown["is_on"], shown["max_attempts"], shown["max_usd"], shown["state"]) == (True, 2, 12.5, "watching")

    terminal.tpu("delete", "mine", "--yes")
    assert terminal.tpu_json("recover", "mine", "--off")["is_on"] is False
    assert terminal.cloud.billing() == []


def test_a_node_is_deleted_between_two_attempts_to_recreate_it(terminal: Terminal) -> None:
    """It doesn't exist then, but would cost money again in a few minutes."""
    terminal.tpu("create", "mine", "--type", "v5litepod-8", "--zone", ZONE, "--spot")
    terminal.tpu("recover", "mine", "--on")
    terminal.tpu("delete", "mine", "--yes")
    with closing(Journal.open(terminal.home / "tpu")) as journal, journal.writing() as database:
        (text,) = database.execute("SELECT body FROM documents WHERE kind = 'recovery'").fetchone()
        now = time.time()
        waiting = {"is_on": True, "phase": "waiting", "attempts": 1, "chosen_at": now, "retry_at": now + 900}
        body = json.dumps({**json.loads(text), **waiting})
        database.execute("UPDATE documents SET body = ? WHERE kind = 'recovery'", (body,))
        # a damaged setting of another node hides no node
        database.execute(
            "INSERT INTO documents SELECT endpoint, project, kind, replace(name, 'mine', 'other'), 'damaged',"
            " updated_at FROM documents WHERE kind = 'recovery'"
        )

    stopped = terminal.tpu("stop", "mine", "--yes")
    assert (stopped.returncode, "Auto-recovery is on for it" in stopped.stderr) == (1, True), stopped.stderr
    deleted = terminal.tpu("delete", "mine", "--yes")
    assert (deleted.returncode, deleted.stdout) == (0, "mine is deleted.\n"), deleted.stderr
    with closing(Journal.open(terminal.home / "tpu")) as journal, journal.writing() as database:
        database.execute("DELETE FROM documents WHERE body = 'damaged'")
    assert " off " in terminal.tpu("recover", "mine").stdout
    assert terminal.tpu("delete", "mine", "--yes").returncode == 1


def test_a_cap_that_cannot_be_checked_is_refused_at_once(terminal: Terminal) -> None:
    """No source has a price of spot v6e chips there."""
    zone, today = "southamerica-west1-a", time.strftime("%Y-%m-%d", time.gmtime())
    terminal.tpu("create", "dear", "--type", "v6e-1", "--zone", zone, "--spot", "--yes")
    refused = terminal.tpu("recover", "dear", "--on", "--max-usd", "50")
    assert refused.returncode == 1
    assert "so a cap in dollars cannot be checked" in refused.stderr
    assert terminal.tpu_json("recover", "dear")["choices"] == []

    terminal.tpu("grant", "add", "trc", "--row", f"64 spot v6e {zone}", "--starts-on", today, "--days", "9")
    assert "until it has cost $50.00" in terminal.tpu("recover", "dear", "--on", "--max-usd", "50").stdout
    terminal.tpu("grant", "remove", "trc")
    terminal.tpu("delete", "dear", "--yes")


def test_what_cannot_be_chosen_is_refused(terminal: Terminal) -> None:
    for argv in (["nobody", "--on"], ["--on"], ["x", "--attempts", "2"], ["x", "--on", "--off"]):
        refused = terminal.tpu("recover", *argv)
        assert refused.returncode != 0
        assert "Traceback" not in refused.stderr
