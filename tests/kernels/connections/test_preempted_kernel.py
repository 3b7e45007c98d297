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
from jupyter_tpu.journal.audit import Entry
from jupyter_tpu.journal.recovery_store import Recoveries
from jupyter_tpu.kernels.connections.node_ends import end_of_node
from jupyter_tpu.kernels.connections.preemption import with_outlook
from jupyter_tpu.kernels.connections.worker import Worker, WorkerKey
from jupyter_tpu.lifecycle.intents import Intent, Verb
from jupyter_tpu.lifecycle.recovery_state import Recovery
from jupyter_tpu.models import Node, NodeName, NodeSpec, QueuedName, QueuedSpec
from jupyter_tpu.node_end import EndCause, NodeEnd

NAME = NodeName(project="demo-project", zone="us-central1-a", node_id="my-node")
SPEC = NodeSpec(name=NAME, accelerator_type="v5litepod-8", runtime_version="v2-alpha-tpuv5-lite", spot=True)
COMING = (
    "The node was pre-empted and is being recreated (attempt 1 of 3). "
    "When it is READY, the kernels of open notebooks are restarted there."
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


def node(state: str, **changes: Any) -> Node:
    return replace(Node(name=NAME, state=state, accelerator_type="v5litepod-8"), **changes)


def end(there: Node | None, *, is_another: bool = False) -> NodeEnd:
    return end_of_node("", NAME, there, 99.0, is_another=is_another)


def request(folder: Path, verb: Verb, because: EndCause | None = None, *, at: float = 5.0, endpoint: str = "") -> None:
    """Write an intent that has been performed."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal.open(folder)
    spec = SPEC if verb == "create" else None
    intent = Intent(intent_id=f"{verb}-{at}", verb=verb, node_name=NAME, endpoint=endpoint, spec=spec)
    begun = journal.begin(replace(intent, created_at=at, because=because))
    journal.save(replace(begun, settled=True, updated_at=time.time()))
    journal.close()


def offered(ended: NodeEnd) -> list[tuple[str, object]]:
    return [(action.command, action.args["node_id"]) for action in ended.actions]


USED_UP = EndCause(cause="budget", name="daily", detail="$10.02 of $10.00 today")


def test_a_node_without_a_known_cause_was_ended_by_someone_else(data_dir: Path) -> None:
    assert (end(None).why.cause, end(None).is_deleted, end(None).at) == ("unknown", True, 99.0)
    assert (end(node("STOPPED")).why.cause, end(node("STOPPED")).is_deleted) == ("unknown", False)
    assert not (data_dir / "journal.db").exists()


@pytest.mark.parametrize("state", ["REPAIRING", "RESTARTING", "REIMAGING"])
def test_a_node_that_google_repairs_says_so(data_dir: Path, state: str) -> None:
    ended = end(node(state))
    assert (ended.why.cause, ended.is_deleted, offered(ended)) == ("repair", False, [])
    request(data_dir, "stop", USED_UP)
    assert end(node(state)).why == USED_UP


@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_a_request_without_a_cause_is_the_users(data_dir: Path, verb: Verb) -> None:
    request(data_dir, verb)
    ended = end(node("STOPPING") if verb == "stop" else None)
    assert (ended.why.cause, ended.is_deleted, ended.at) == (verb, verb == "delete", 5.0)


@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_the_recorded_cause_is_what_its_kernels_say(data_dir: Path, verb: Verb) -> None:
    request(data_dir, verb, USED_UP)
    assert end(node("STOPPED") if verb == "stop" else None).why == USED_UP


def test_an_older_end_does_not_explain_the_present_one(data_dir: Path) -> None:
    request(data_dir, "stop", USED_UP)
    request(data_dir, "start", at=6.0)
    assert end(node("STOPPED")).why.cause == "unknown"


def test_a_node_that_was_created_again_says_how_the_one_before_it_has_ended(data_dir: Path) -> None:
    request(data_dir, "delete", USED_UP)
    request(data_dir, "create", at=6.0)
    assert end(node("READY"), is_another=True).why == USED_UP
    lay_down(data_dir, phase="watching", attempts=2)
    assert end(node("READY"), is_another=True).why == USED_UP


def test_a_deletion_before_the_node_was_created_explains_nothing(data_dir: Path) -> None:
    request(data_dir, "delete", USED_UP)
    request(data_dir, "create", at=6.0)
    assert end(None).why.cause == "unknown"
    request(data_dir, "create", at=7.0)
    lay_down(data_dir, phase="watching", attempts=1)
    assert end(node("READY"), is_another=True).why.cause == "preempted"


def test_a_preempted_node_says_so_at_each_step_of_its_recovery(data_dir: Path) -> None:
    assert end(node("PREEMPTED", spot=True)).why.cause == "preempted"
    request(data_dir, "create", at=1.0)
    for phase in ("clearing", "waiting", "making", "given_up"):
        lay_down(data_dir, phase=phase)
        assert end(None).why.cause == "preempted", phase
    lay_down(data_dir, phase="watching", attempts=1)
    assert end(node("READY"), is_another=True).why.cause == "preempted"


def test_only_what_is_possible_is_offered(data_dir: Path) -> None:
    assert offered(end(None)) == []  # it is not known what it was
    assert offered(end(node("STOPPED"))) == [("tpu:start-node", "my-node")]
    assert offered(end(node("REPAIRING"))) == []  # it comes back by itself
    # a spot node can't be started again, and its name is free only when it is deleted
    assert offered(end(node("STOPPED", spot=True))) == [("tpu:open-form", "")]
    assert offered(end(node("PREEMPTED", spot=True))) == [("tpu:open-form", "")]
    request(data_dir, "create")
    assert offered(end(None)) == [("tpu:open-form", "my-node")]


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


@pytest.mark.parametrize(
    ("spot", "by_user", "cause"), [(True, False, "preempted"), (False, False, "unknown"), (True, True, "unknown")]
)
async def test_a_queued_node_that_the_cloud_takes_back_was_preempted_if_it_could_be(
    emulator: Any, data_dir: Path, spot: bool, by_user: bool, cause: str
) -> None:
    from jupyter_tpu.cloud import connect_cloud

    cloud = await connect_cloud(emulator.settings)
    queued = QueuedName(project=NAME.project, zone=NAME.zone, queued_id="my-request")
    await cloud.create_queued_resource(QueuedSpec(name=queued, node=replace(SPEC, spot=spot)))
    emulator.control.advance(3600)
    if by_user:
        await cloud.delete_node(NAME)
    else:
        emulator.control.preempt(str(NAME))
    emulator.control.advance(3600)
    assert [each.state for each in (await cloud.list_queued_resources(NAME.zone)).items] == ["SUSPENDED"]
    await cloud.aclose()
    worker = Worker(WorkerKey(node=NAME, endpoint=emulator.settings.endpoint), lambda progress: None)
    with pytest.raises(NodeNotFound):
        await worker.connect()
    assert worker.node_end is not None
    assert (worker.node_end.why.cause, offered(worker.node_end)) == (cause, [("tpu:open-form", "my-node")])


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
    request(data_dir, "delete", USED_UP, endpoint=emulator.settings.endpoint)
    worker = Worker(WorkerKey(node=NAME, endpoint=emulator.settings.endpoint), lambda progress: None)
    with pytest.raises(WrongState, match="is DELETING, not READY") as refused:
        await worker.connect()
    assert "budget daily is used up ($10.02 of $10.00 today)." in refused.value.exists
    assert refused.value.hint == "Create another node."
    assert worker.node_end is not None
    assert worker.node_end.why == USED_UP
    emulator.control.resume()


async def test_a_node_that_is_being_created_is_not_explained_by_the_end_of_its_predecessor(
    emulator: Any, data_dir: Path
) -> None:
    from jupyter_tpu.cloud import connect_cloud

    cloud = await connect_cloud(emulator.settings)
    emulator.control.pause()
    await cloud.create_node(SPEC)
    await cloud.aclose()
    request(data_dir, "delete", USED_UP, endpoint=emulator.settings.endpoint)
    request(data_dir, "create", at=6.0, endpoint=emulator.settings.endpoint)
    worker = Worker(WorkerKey(node=NAME, endpoint=emulator.settings.endpoint), lambda progress: None)
    with pytest.raises(WrongState, match="is CREATING, not READY") as refused:
        await worker.connect()
    assert refused.value.exists == "Nothing was started."
    # a kernel that ran on the predecessor has ended with that
    assert worker.node_end is not None
    assert worker.node_end.why == USED_UP
    emulator.control.resume()
