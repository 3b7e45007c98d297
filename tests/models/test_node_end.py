"""The end of a node has one sentence, the same in the terminal and in the notebook."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from jupyter_tpu.durations import duration_text
from jupyter_tpu.models import NodeName
from jupyter_tpu.node_end import Cause, EndCause, NodeEnd

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
AT = time.mktime((2026, 11, 24, 16, 15, 0, 0, 0, -1))
# Also read by the front end's tests, which expect the same sentences.
SENTENCES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "node_ends.json").read_text())


@pytest.mark.parametrize("row", SENTENCES, ids=lambda row: row["sentence"])
def test_the_sentence_says_what_happened_when_and_why(row: dict[str, Any]) -> None:
    why = EndCause(cause=row["cause"], name=row.get("name", ""), detail=row.get("detail", ""))
    assert NodeEnd(node=NAME, why=why, at=AT, is_deleted=row["is_deleted"]).message == row["sentence"]


def test_every_cause_has_its_sentence() -> None:
    assert {row["cause"] for row in SENTENCES} == {*get_args(Cause)}


def test_a_cause_is_read_as_it_was_written() -> None:
    why = EndCause(cause="budget", name="daily", detail="$5.02 of $5.00 today")
    assert EndCause.from_json(json.loads(json.dumps(why.to_json()))) == why


def test_the_limit_that_was_reached_can_be_translated() -> None:
    why = EndCause.from_json(json.loads(json.dumps(EndCause(cause="idle", detail=duration_text(5400)).to_json())))
    assert why is not None
    shown = NodeEnd(node=NAME, why=why, at=AT, is_deleted=False).to_json()
    assert (shown["detail"], shown["arguments"]) == ("1 h 30 min", {"hours": 1, "minutes": 30})
    assert shown["templates"] == {"detail": "{hours} h {minutes} min"}


@pytest.mark.parametrize("data", [None, {}, {"cause": "boredom"}, {"cause": ["idle"]}, "idle", 3])
def test_what_an_earlier_or_later_version_wrote_is_no_cause(data: object) -> None:
    assert EndCause.from_json(data) is None
