"""Actions of errors are saved in the journal, and read from nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_tpu.error_actions import ARGUMENTS, actions_from_json, copy_command, raise_budget
from jupyter_tpu.errors import BudgetExceeded, error_from_json
from jupyter_tpu.lifecycle.intents import Intent
from jupyter_tpu.models import NODE_OPTIONS, NodeName

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
ERROR = BudgetExceeded("Used up.", actions=[raise_budget("week")])
SHOWN = {"command": "tpu:raise-budget", "args": {"name": "week"}, "label": "Raise budget…"}


def entry(error: dict[str, Any]) -> dict[str, Any]:
    intent = Intent(intent_id="abc", verb="create", node_name=NAME, phase="failed", settled=True)
    return {**intent.to_json(), "error": error}


def test_an_error_shows_its_actions() -> None:
    assert ERROR.to_json()["actions"] == [SHOWN]


def test_the_journal_keeps_the_actions_of_an_error() -> None:
    written = json.loads(json.dumps(entry(ERROR.to_json())))
    assert Intent.from_json(written).error == ERROR


def test_an_entry_of_an_earlier_version_has_no_actions() -> None:
    old = {name: value for name, value in ERROR.to_json().items() if name != "actions"}
    read = Intent.from_json(entry(old)).error
    assert read is not None
    assert (read.message, read.actions) == ("Used up.", ())


def test_an_error_from_a_worker_brings_no_actions() -> None:
    assert error_from_json(ERROR.to_json()).actions == ()


@pytest.mark.parametrize(
    "data",
    [
        None,
        "tpu:refresh",
        [7],
        [{**SHOWN, "command": "terminal:create-new"}],
        [{**SHOWN, "command": ["tpu:raise-budget"]}],
        [{**SHOWN, "args": {}}],
        [{**SHOWN, "args": {"name": "week", "more": "x"}}],
        [{**SHOWN, "args": {"name": ["week"]}}],
        [{**SHOWN, "args": {"name": "w" * 100_000}}],
        [{**SHOWN, "label": None}],
    ],
)
def test_what_is_not_of_the_closed_set_is_left_out(data: object) -> None:
    assert actions_from_json(data) == ()


def test_an_earlier_version_may_not_have_known_each_option_of_a_node() -> None:
    texts = dict.fromkeys(ARGUMENTS["tpu:open-form"] - {*NODE_OPTIONS}, "x")
    old = {"command": "tpu:open-form", "args": texts, "label": "Try us-west4-a"}
    assert [action.args for action in actions_from_json([old])] == [texts]


def test_no_argument_can_control_a_terminal() -> None:
    assert copy_command("gcloud\x1b[2J\u202e").args == {"command_line": "gcloud[2J"}
