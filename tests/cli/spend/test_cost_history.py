"""`jupyter tpu cost --by`, as typed in a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from terminal import Terminal

HERE = ("--zone", "us-central1-a")


def test_what_was_spent_is_shown_by_day_and_by_hour(terminal: Terminal) -> None:
    assert terminal.tpu("create", "my-node", "--type", "v5litepod-8", *HERE).returncode == 0
    terminal.tpu("delete", "my-node", *HERE, "--yes")

    total = terminal.tpu_json("cost")["total"]["usd"]
    days = terminal.tpu_json("cost", "--by", "day", "--last", "2")
    assert [len(days["slots"]), days["emulated"]] == [2, True]
    assert days["sum"]["usd"] == pytest.approx(total)

    shown = terminal.tpu("cost", "--by", "hour")
    assert re.search(r"FROM +READY FOR +COST\n20\d\d-\d\d-\d\d \d\d:00 +\S+ s +\$0\.", shown.stdout)
    assert re.search(r"^last 24 hours: \$0\.\d+ for \d+ s of READY nodes$", shown.stdout, re.MULTILINE)


def test_an_unknown_price_is_said_to_be_in_no_sum(terminal: Terminal) -> None:
    here = ("--zone", "southamerica-west1-a")
    assert terminal.tpu("create", "old", "--type", "v6e-1", "--spot", *here, "--yes").returncode == 0
    terminal.tpu("delete", "old", *here, "--yes")

    shown = terminal.tpu("cost", "--by", "day")

    assert re.search(r"at least \$|price unknown", shown.stdout)
    assert "No list price is known for v6e-1: their cost is not included." in shown.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--last", "3"], "--last requires --by."),
        (["--by", "day", "--billed"], "--by and --billed can't be used together."),
        (["--by", "day", "--last", "93"], "The last 93 days cannot be shown."),
        (["--by", "hour", "--last", "0"], "The last 0 hours cannot be shown."),
    ],
)
def test_what_makes_no_sense_is_refused(terminal: Terminal, options: list[str], says: str) -> None:
    refused = terminal.tpu("cost", *options)
    assert (refused.returncode != 0, refused.stdout) == (True, "")
    assert says in refused.stderr
