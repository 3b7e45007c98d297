"""A kernel whose node was taken away says so, and what is being done about it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.errors import NodeNotFound, TpuError, WrongState
from jupyter_tpu.journal import Journal
from jupyter_tpu.journal.audit import Audit, Entry
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.kernels.connections.preemption import (
    deleted_message,
    end_reason,
    recreated_message,
    stopped_message,
    with_outlook,
)
from jupyter_tpu.kernels.connections.worker import Worker, WorkerKey
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.recovery_state import Recovery
from jupyter_tpu.models import Node, NodeName, NodeSpec

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite", spot=True)
COMING = (
    "The node was pre-empted and is being recreated, attempt 1 of 3. "
    "When it is READY, the kernels of open notebooks are started there again."
)


def lay_down(folder: Path, endpoint: str = "", **changes: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal.open(folder)
    recovery = replace(Recovery(choice_id="c", spec=SPEC, message="It was taken away."), **changes)
    entry = Entry(at=0, action="recover-on", subject=str(NAME), reason="for a test")
    Recoveries(journal, endpoint=endpoint, project=NAME.project).put(recovery, entry)
    journal.close()


def told(error: TpuError, *, is_taken: bool = False) -> str:
    return with_outlook(error, "", NAME, is_preempted=is_taken).hint


@pytest.mark.parametrize(("phase", "attempts"), [("clearing", 0), ("waiting", 0), ("making", 1)])
def test_a_node_that_is_being_made_again_is_waited_for(data_dir: Path, phase: Any, attempts: int) -> None:
    lay_down(data_dir, phase=phase, attempts=attempts)
    error = with_outlook(NodeNotFound("There is no node."), "", NAME, is_preempted=False)
    assert isinstance(error, NodeNotFound)
    assert (error.message, error.exists) == ("There is no node.", "It was taken away.")
    assert error.hint.endswith(COMING)


def test_what_was_not_taken_away_is_told_as_ever(data_dir: Path) -> None:
    stopped = WrongState("The node is STOPPED, not READY.", hint="Start it.")
    assert told(stopped) == "Start it."
    assert not (data_dir / "journal.db").exists()
    lay_down(data_dir, phase="watching")
    assert told(stopped) == "Start it."
    assert "Auto-recovery recreates the node" in told(stopped, is_taken=True)
    lay_down(data_dir, phase="off", is_on=False)
    assert told(stopped, is_taken=True) == "Start it."
    lay_down(data_dir, phase="given_up")
    assert told(stopped) == "Start it."
    assert "`jupyter tpu recover my-node" in told(stopped, is_taken=True)


def test_a_node_of_the_same_name_is_said_to_be_another(data_dir: Path) -> None:
    assert recreated_message("", NAME) == "The node my-node was deleted and recreated."
    lay_down(data_dir, phase="watching", attempts=2)
    assert recreated_message("", NAME) == ("The node my-node was pre-empted and recreated, attempt 2 of 3.")


def test_of_a_stopped_node_only_that_is_advised_which_is_possible() -> None:
    node = Node(name=NAME, state="STOPPED", accelerator_type="v5litepod-8")
    assert stopped_message(node) == (
        "The node my-node was stopped, and its kernel ended with it.\n"
        "Start the node in the TPU panel to run cells again. Outputs are kept."
    )
    assert stopped_message(replace(node, spot=True)) == (
        "The node my-node was stopped, and its kernel ended with it.\n"
        "A spot node can't be started again; create a new one to run cells again. Outputs are kept."
    )


def lay_down_end(folder: Path, verb: Verb, reason: str, endpoint: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal.open(folder)
    intent = journal.begin(Intent(intent_id=f"{verb}-1", verb=verb, node_name=NAME, endpoint=endpoint, created_at=5.0))
    entry = Entry(at=5, action=verb, subject=str(NAME), reason=reason, detail={"intent_id": intent.intent_id})
    journal.save(replace(intent, settled=True, updated_at=time.time()))
    Audit(journal, endpoint=endpoint, project=NAME.project).record(entry)
    journal.close()


def test_a_kernel_whose_node_a_budget_ended_names_the_budget(data_dir: Path) -> None:
    assert end_reason("", NAME) == ""
    used_up = "The budget daily is used up: $10.02 of $10.00."
    lay_down_end(data_dir, "delete", used_up)
    assert end_reason("", NAME) == used_up
    assert deleted_message(NAME, used_up) == (
        "The node my-node was deleted with its disk, and its kernel ended with it: "
        "The budget daily is used up: $10.02 of $10.00.\n"
        "Create a new node to run cells again. Outputs are kept."
    )
    stopped = stopped_message(Node(name=NAME, state="STOPPED", accelerator_type="v5litepod-8"), used_up)
    assert stopped.startswith("The node my-node was stopped, and its kernel ended with it: The budget daily is used up")


def test_an_older_end_does_not_explain_the_present_one(data_dir: Path) -> None:
    lay_down_end(data_dir, "stop", "The budget daily is used up: $10.02 of $10.00.")
    journal = Journal.open(data_dir)
    journal.begin(Intent(intent_id="by-the-user", verb="start", node_name=NAME, created_at=6.0))
    journal.close()
    assert end_reason("", NAME) == ""


async def test_a_kernel_on_a_preempted_node_hears_what_happens_next(emulator: Any, data_dir: Path) -> None:
    from jupyter_tpu.cloud import connect_cloud

    cloud = await connect_cloud(emulator.settings)
    operation = await cloud.create_node(SPEC)
    async with asyncio.timeout(60):
        while not operation.done:
            operation = await cloud.get_operation(operation.name)
    await cloud.aclose()
    emulator.control.preempt(str(NAME))
    lay_down(data_dir, emulator.grpc, phase="clearing")
    worker = Worker(WorkerKey(node=NAME, endpoint=emulator.grpc), lambda progress: None)
    with pytest.raises(WrongState, match="is PREEMPTED, not READY") as refused:
        await worker.connect()
    assert refused.value.hint.endswith(COMING)


async def test_a_kernel_on_a_node_that_a_budget_deletes_is_not_told_to_wait(emulator: Any, data_dir: Path) -> None:
    from jupyter_tpu.cloud import connect_cloud

    cloud = await connect_cloud(emulator.settings)
    operation = await cloud.create_node(SPEC)
    async with asyncio.timeout(60):
        while not operation.done:
            operation = await cloud.get_operation(operation.name)
    emulator.control.pause()
    await cloud.delete_node(NAME)
    await cloud.aclose()
    used_up = "The budget daily is used up: $10.02 of $10.00."
    lay_down_end(data_dir, "delete", used_up, endpoint=emulator.settings.endpoint)
    worker = Worker(WorkerKey(node=NAME, endpoint=emulator.settings.endpoint), lambda progress: None)
    with pytest.raises(WrongState, match="is DELETING, not READY") as refused:
        await worker.connect()
    assert refused.value.exists.startswith(used_up)
    assert refused.value.hint == "Create another node."
    assert worker.end_message.startswith("The node my-node was deleted with its disk")
    emulator.control.resume()
