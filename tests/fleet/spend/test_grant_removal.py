"""A grant that has paid is not taken away from under a budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cloud import CloudSettings
from jupyter_tpu.errors import BadInput, WrongState
from jupyter_tpu.fleet.spend.spend_ledger import SpendLedger
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.grant_store import Grants
from jupyter_tpu.models import NodeName
from jupyter_tpu.money.accrual import NodesObservation, ObservedNode
from jupyter_tpu.money.days import began_at, day_number
from jupyter_tpu.money.grants import grant_from_json

PLACE = CloudSettings(project="demo-project")
NOON = began_at(day_number("2026-11-10")) + 12 * 3600.0
NODE = ObservedNode(
    name=NodeName(project="demo-project", zone="us-central1-a", node_id="my-node"),
    uid="1",
    accelerator_type="v5litepod-8",
    spot=False,
    usd_per_hour=9.6,
)
ROW = {"chips": 8, "generation": "v5e", "spot": False, "zone": "us-central1-a"}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal.open(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def books(journal: Journal) -> SpendLedger:
    """A node has been READY for ten hours, and a grant has paid for it."""
    grant = grant_from_json("trc", {"kind": "trc", "starts_on": "2026-11-01", "days": 30, "rows": [ROW]})
    Grants(journal, endpoint=PLACE.endpoint, project=PLACE.project).put(grant, now=1.0)
    kept = SpendLedger(journal, PLACE)
    for hour in range(11):
        kept.record(NodesObservation(as_of=NOON - 36_000.0 + hour * 3600.0, ready=(NODE,)))
    return kept


def budget(books: SpendLedger, amount: float, **changes: Any) -> None:
    books.set_budget("mine", {"amount": amount, "unit": "usd", "period": "total", **changes}, now=2.0)


def used(books: SpendLedger) -> float:
    ((_, usage),) = books.account(NOON).usages()
    return usage.used


def test_a_budget_that_would_be_used_up_keeps_the_grant(books: SpendLedger) -> None:
    budget(books, 50.0)
    with pytest.raises(
        WrongState, match=r"The budget mine would then be used up \(\$96.00 of \$50.00 in total\)"
    ) as refused:
        books.remove_grant("trc", now=NOON)
    assert refused.value.exists == "The grant is unchanged."
    assert "Raise or remove the budget mine first" in refused.value.hint
    assert used(books) == 0.0


@pytest.mark.parametrize(("amount", "changes"), [(500.0, {}), (50.0, {"action": "warn"})])
def test_a_budget_that_stops_nothing_lets_it_go(books: SpendLedger, amount: float, changes: dict[str, str]) -> None:
    budget(books, amount, **changes)
    books.remove_grant("trc", now=NOON)
    assert used(books) == pytest.approx(96.0)


def test_a_grant_that_there_is_not_is_not_removed(books: SpendLedger) -> None:
    with pytest.raises(BadInput, match="There is no grant none"):
        books.remove_grant("none", now=NOON)


def test_nothing_is_written_down_for_what_can_be_no_project(journal: Journal) -> None:
    nowhere = CloudSettings(project="x y/../z")
    with pytest.raises(BadInput, match="is not a valid project ID"):
        budget(SpendLedger(journal, nowhere), 1.0)
    grant = grant_from_json("usd", {"kind": "credit", "starts_on": "2026-11-01", "days": 30, "usd": 300})
    with pytest.raises(BadInput, match="is not a valid project ID"):
        Grants(journal, endpoint="", project=nowhere.project).put(grant, now=1.0)
