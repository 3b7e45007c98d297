"""Stories about money that have gone wrong once, and how they go now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_tpu.emulator.resources.protos import State
from tests.fleet.test_money_machine import MoneyMachine


@pytest.fixture
def story() -> Iterator[MoneyMachine]:
    """Judged after each step that a test calls `nothing_leaks` for, and in the end."""
    machine = MoneyMachine()
    yield machine
    machine.teardown()


def test_a_node_that_a_budget_has_stopped_is_deleted_at_its_deadline(story: MoneyMachine) -> None:
    story.begin(spots=(False, False), amount=(0.05, "usd"), seconds=100.0)
    story.minutes_pass(150.0)
    assert {node.state for node in story.world.nodes()} == {State.STOPPED}
    story.set_autostop(index=0, deadline_in_s=20.0, session_s=None, action="delete")
    story.minutes_pass(240.0)
    story.nothing_leaks()
    assert [node.name.rpartition("/")[2] for node in story.world.nodes()] == ["n2"]


def test_a_process_ends_while_it_makes_a_node_again_and_cannot_write_that_down(story: MoneyMachine) -> None:
    story.begin(spots=(True, False), amount=None, seconds=100.0)
    story.choose_recovery(index=0, is_on=True, max_attempts=3)
    story.preempt(index=0)
    while story.some_node(0).state != State.DELETING:
        story.time_passes(0.02)
    story.die(index=0)
    story.nothing_leaks()
