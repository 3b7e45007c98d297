"""Every face says the same of what a node costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.cloud import tpu_v2

from jupyter_tpu.cli.node_texts import charge_text, resource_text, total_text
from jupyter_tpu.cli.spend.budget import echo_budgets
from jupyter_tpu.cli.spend.cost import doubts
from jupyter_tpu.lifecycle.intent_texts import node_exists
from jupyter_tpu.models import Node, NodeName
from jupyter_tpu.money.budgets import Budget
from jupyter_tpu.money.spans import Span
from jupyter_tpu.money.spending import Account, budgets_view, spend_view

NAME = NodeName(project="my-project", zone="us-central1-a", node_id="my-node")


def node(state: str) -> Node:
    return Node(name=NAME, state=state, accelerator_type="v5litepod-8")


@pytest.mark.parametrize(
    ("state", "billing"),
    [
        ("CREATING", "it is not billed until it is READY"),
        ("REPAIRING", "it is not billed until it is READY"),
        ("STOPPING", "only its disk is billed"),
        ("STOPPED", "only its disk is billed"),
        ("PREEMPTED", "it is not billed, but counts towards your quota until it is deleted"),
        ("DELETING", "it is no longer billed"),
        ("UNKNOWN(17)", "it may be billed"),
    ],
)
def test_the_command_line_and_an_intent_say_the_same_of_a_node_that_is_not_ready(state: str, billing: str) -> None:
    assert charge_text(node(state), emulated=False) == f"It is {state}: {billing}."
    assert node_exists(node(state)) == f"The node my-node exists and is {state}: {billing}."


def test_a_ready_node_is_billed_by_the_hour() -> None:
    assert charge_text(node("READY"), emulated=False) == "It is billed now ($9.60/h)."
    assert total_text((node("READY"), node("STOPPED"))) == "1 READY: $9.60/h at list price."


@pytest.mark.parametrize("state", [*tpu_v2.Node.State.__members__, "UNKNOWN(17)"])
def test_only_a_node_that_is_certainly_not_billed_is_said_not_to_be(state: str) -> None:
    said = charge_text(node(state), emulated=False)
    assert node(state).is_billed == (said.startswith("It is billed now") or said.endswith("it may be billed."))


def test_a_node_in_a_state_that_nobody_knows_is_part_of_the_total() -> None:
    unknown = node("UNKNOWN(17)")
    assert total_text((unknown,)) == "1 in unknown state (may be billed): $9.60/h at list price."
    both = "1 READY, 2 in unknown state (may be billed): $28.80/h at list price."
    assert total_text((node("READY"), unknown, unknown)) == both


def test_the_same_cost_is_simulated_on_an_emulated_cloud() -> None:
    simulated = "It is billed now ($9.60/h). Costs are simulated: the cloud is emulated."
    assert charge_text(node("READY"), emulated=True) == simulated


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (str(NAME), "my-node (us-central1-a)"),
        ("projects/my-project/locations/us-east5-b/queuedResources/waiting", "waiting (us-east5-b)"),
        ("weekly", "weekly"),
        ("projects/my-project", "projects/my-project"),
    ],
)
def test_a_resource_is_called_by_its_short_name(name: str, text: str) -> None:
    assert resource_text(name) == text


def test_unmonitored_time_is_not_blamed_on_zones_that_did_not_answer() -> None:
    now = 1_800_000_000.0
    span = Span(
        name=NAME,
        uid="1",
        accelerator_type="v5litepod-8",
        spot=False,
        usd_per_hour=10.0,
        began_at=now - 7200.0,
        ended_at=now - 3600.0,
        is_open=False,
        unwatched_after_s=300.0,
    )
    # nodes of one name: two in this zone, one after the other, and one in another zone
    elsewhere = replace(span, name=replace(NAME, zone="us-east1-d"), uid="3")
    spans = (span, replace(span, uid="2"), elsewhere)
    account = Account(spans=spans, budgets=(), now=now, offset_at=lambda _: 0.0)

    def said(*, all_answered: bool) -> str:
        view = spend_view(account, as_of=now, is_complete=all_answered)
        return " ".join(doubts(view, all_answered=all_answered))

    unmonitored = said(all_answered=True)
    assert "my-node (us-central1-a) may have been READY for up to 10 min of unmonitored time" in unmonitored
    assert "my-node (us-east1-d) may have been READY for up to 5 min of" in unmonitored
    assert unmonitored.count("may have been READY") == 2
    assert "did not respond" not in said(all_answered=True)
    assert "some zones did not respond" in said(all_answered=False)


@pytest.mark.parametrize(
    ("hours", "text"),
    [(0.96, "$9.60 (96%)"), (0.999, "$9.99 (99%)"), (2.4, "$24.00 (2.4 ×)"), (697, "$6,970.00 (697 ×)")],
)
def test_the_used_share_of_a_budget_can_be_read(hours: float, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    now = 1_800_000_000.0
    span = Span(
        name=NAME,
        uid="1",
        accelerator_type="v5litepod-8",
        spot=False,
        usd_per_hour=10.0,
        began_at=now - hours * 3600.0,
        ended_at=now,
        is_open=False,
    )
    budget = Budget(name="mine", amount=10.0, unit="usd", period="total")
    account = Account(spans=(span,), budgets=(budget,), now=now, offset_at=lambda _: 0.0)
    echo_budgets(budgets_view(account), account)
    assert text in capsys.readouterr().out
