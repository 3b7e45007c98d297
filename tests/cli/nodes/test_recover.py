"""`jupyter tpu recover`, as typed in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Terminal

ZONE = "us-central1-a"


def test_a_choice_is_made_shown_and_taken_back(terminal: Terminal) -> None:
    assert "Recovery is off for all nodes" in terminal.tpu("recover").stderr
    terminal.tpu("create", "mine", "--type", "v5litepod-8", "--zone", ZONE, "--spot")

    chosen = terminal.tpu("recover", "mine", "--on", "--attempts", "2", "--max-usd", "12.5")
    assert chosen.returncode == 0, chosen.stderr
    assert "recreated after a pre-emption, 2 more times at most, while it has cost less than $12.50" in chosen.stdout
    assert "0 of 2" in terminal.tpu("recover", "mine").stdout
    (shown,) = terminal.tpu_json("recover")["choices"]
    assert (shown["is_on"], shown["max_attempts"], shown["max_usd"], shown["state"]) == (True, 2, 12.5, "watching")

    terminal.tpu("delete", "mine", "--yes")
    assert terminal.tpu_json("recover", "mine", "--off")["is_on"] is False
    assert terminal.cloud.billing() == []


def test_what_cannot_be_chosen_is_refused(terminal: Terminal) -> None:
    for argv in (["nobody", "--on"], ["--on"], ["x", "--attempts", "2"], ["x", "--on", "--off"]):
        refused = terminal.tpu("recover", *argv)
        assert refused.returncode != 0
        assert "Traceback" not in refused.stderr
