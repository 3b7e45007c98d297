"""Starting a kernel without waiting for the answer: with a spare on the worker, or while the link is cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jupyter_tpu.errors import EnvironmentFailed, KernelFailed, NodeEnded, NodeNotFound, TpuError, WorkerUnreachable
from jupyter_tpu.kernels.launch import Launch
from jupyter_tpu.kernels.messages.fanout import RecordFanout
from jupyter_tpu.kernels.messages.not_run import answers, not_run, routing_identities
from jupyter_tpu.kernels.remote_kernel import RemoteKernel
from jupyter_tpu.models import NodeName
from jupyter_tpu.node_end import EndCause, NodeEnd

INFO = {"kernel_info": {"implementation": "ipython"}}
CELL = [b"page", b"<IDS|MSG>", b"", b'{"msg_type": "execute_request", "msg_id": "1"}', b"{}", b"{}", b'{"code": "1"}']
STATUS = [b"<IDS|MSG>", b"", b'{"msg_type": "status"}', b"{}", b"{}", b'{"execution_state": "idle"}']


class NotedLink:
    """A link that notes what is asked of it and answers when the test says so."""

    error: TpuError | None = None

    def __init__(self, spare: Mapping[str, Any] | None = None, *, is_up: bool = True) -> None:
        self.spare = spare
        self.is_up = is_up
        self.asked: list[str] = []
        self.is_asked = asyncio.Event()
        self.answers: list[asyncio.Future[dict[str, Any]]] = []
        self.streams: list[NotedStream] = []

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(method)
        self.is_asked.set()
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def attach(self, kernel_id: str, *, from_seq: Any, on_message: Any, on_express: Any) -> NotedStream:
        self.asked.append("attach")
        self.streams.append(NotedStream(on_message))
        return self.streams[-1]


class NotedStream:
    """The kernel's stream; it brings what the test wants."""

    def __init__(self, on_message: Any) -> None:
        self._on_message = on_message
        self.applied_seq = 0
        self.is_closed, self.has_begun = False, True
        self._sent: list[list[bytes]] = []

    def bring(self, channel: str, parts: list[bytes]) -> None:
        self.applied_seq += 1
        self._on_message(self.applied_seq, channel, parts)

    def event(self, **event: Any) -> None:
        self.bring("event", [json.dumps(event).encode()])

    def hold(self) -> None: ...

    def resume(self) -> None: ...

    def abort_pending(self) -> None: ...

    def send(self, channel: str, parts: list[bytes]) -> None:
        self._sent.append(parts)

    def withdraw_unsent_cells(self) -> list[list[bytes]]:
        taken, self._sent = self._sent, []
        return taken

    def close(self) -> None:
        self.is_closed = True


class Started:
    """A kernel on a noted link, with what it told."""

    def __init__(self, link: NotedLink) -> None:
        self.told: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.kernel = RemoteKernel(link, RecordFanout(), self.told.put_nowait, owner="me")  # type: ignore[arg-type]


LAUNCH = Launch(kernel_id="k", key="secret")


async def test_with_a_spare_a_start_waits_for_nothing_and_is_asked_for_before_its_output() -> None:
    link = NotedLink(INFO)
    started = Started(link)
    await started.kernel.start(LAUNCH)
    await started.kernel.wait_until_up()
    assert link.asked == ["start_kernel", "attach"]
    assert started.kernel.expected_info == INFO["kernel_info"]
    assert started.told.empty()
    link.answers[0].set_result({"generation": 1})
    link.streams[0].event(event="started", generation=1)
    link.streams[0].bring("iopub", STATUS)
    assert (await started.told.get())["phase"] == "ready"
    started.kernel.close()


async def test_a_start_fails_with_the_reason_that_its_node_was_deleted() -> None:
    link = NotedLink()
    started = Started(link)
    starting = asyncio.create_task(started.kernel.start(LAUNCH))
    await link.is_asked.wait()
    link.answers[0].set_result({"generation": 1})
    await starting
    node = NodeName(project="my-project", zone="us-central1-a", node_id="my-node")
    started.kernel.end_with_node(NodeEnd(node=node, why=EndCause(cause="delete"), at=0.0, is_deleted=True))
    with pytest.raises(NodeEnded, match="You deleted my-node") as caught:
        await started.kernel.wait_until_up()
    assert caught.value.exists == "Nothing was started."
    started.kernel.close()


@pytest.mark.parametrize("launch", [LAUNCH, Launch(kernel_id="k", key="secret", extra_arguments=("--debug",))])
async def test_without_a_spare_that_fits_a_start_waits_for_the_kernel(launch: Launch) -> None:
    link = NotedLink(INFO if launch.extra_arguments else None)
    started = Started(link)
    starting = asyncio.create_task(started.kernel.start(launch))
    await link.is_asked.wait()
    assert not starting.done()
    link.answers[0].set_result({"generation": 1})
    await starting
    assert started.kernel.expected_info is None
    started.kernel.close()


async def test_a_spare_that_comes_to_nothing_after_all_is_a_death_with_its_reason() -> None:
    link = NotedLink(INFO)
    started = Started(link)
    await started.kernel.start(LAUNCH)
    assert started.kernel.exit_code is None
    link.answers[0].set_exception(KernelFailed("The disk is full."))
    told = await started.told.get()
    assert (told["phase"], told["message"]) == ("died", "The disk is full.")
    assert await started.kernel.wait() == -9
    assert started.kernel.has_died


async def test_a_kernel_that_somebody_has_ended_is_not_said_to_have_failed() -> None:
    link = NotedLink(INFO)
    started = Started(link)
    await started.kernel.start(LAUNCH)
    await started.kernel.wait_until_up()
    link.answers[0].set_result({"generation": 1})
    link.streams[0].event(event="started", generation=1)
    link.streams[0].bring("iopub", STATUS)
    assert (await started.told.get())["phase"] == "ready"
    why = "The TPU was released by ada, which ended this kernel."
    link.streams[0].event(event="exited", generation=1, signal="SIGTERM", stderr=why, is_told=True)
    told = await started.told.get()
    assert (told["phase"], told["message"], told["error_code"]) == ("ended", why, "")
    assert started.kernel.has_died
    started.kernel.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cell_asked_before_or_after_a_trusted_start_has_failed_gets_the_reason(when: str) -> None:
    link = NotedLink(INFO)
    following, events = RecordFanout(), list[Any]()
    following.read(lambda _seq, _channel, parts: events.append(json.loads(parts[0])), 0)
    kernel = RemoteKernel(link, following, lambda _progress: None)  # type: ignore[arg-type]
    await kernel.start(LAUNCH)
    if when == "before":
        kernel.send("shell", CELL)
    link.streams[0].is_closed = True
    link.streams[0].event(event="gone", message="The worker has no such kernel.")  # it looks so while it fails
    link.answers[0].set_exception(EnvironmentFailed("The disk is full."))
    await kernel.wait()
    for _ in range(3):
        await asyncio.sleep(0)
    if when == "after":
        with pytest.raises(KernelFailed, match="is not running") as refused:
            kernel.send("shell", CELL)
        following.publish_event(**(not_run(CELL, refused.value) or {}))
    (told,) = (event for event in events if event["event"] == "not_run")
    assert routing_identities(told) == [b"page"]
    error, idle, reply = answers(told)
    assert (idle.msg_type, idle.content) == ("status", {"execution_state": "idle"})
    assert (reply.channel, reply.content["status"]) == ("shell", "error")
    assert "The disk is full." in error.content["traceback"]
    kernel.close()


async def test_a_start_that_nobody_wants_any_more_is_not_asked_for_again() -> None:
    link = NotedLink(INFO)
    started = Started(link)
    await started.kernel.start(LAUNCH)
    started.kernel.close()
    await asyncio.sleep(0)
    assert link.answers[0].cancelled()


async def test_a_restart_while_the_link_is_cut_waits_for_nothing_and_the_old_end_is_no_death() -> None:
    link = NotedLink()
    started = Started(link)
    starting = asyncio.create_task(started.kernel.start(LAUNCH))
    await link.is_asked.wait()
    link.answers[0].set_result({"generation": 1, "execution_state": "idle"})
    await starting
    await started.kernel.wait_until_up()
    link.is_up = False
    await started.kernel.restart(LAUNCH)
    await started.kernel.wait_until_up()
    link.streams[0].event(event="exited", generation=1, exit_code=None, signal="SIGKILL", asked=True)
    assert started.kernel.exit_code is None
    link.streams[0].event(event="started", generation=2)
    link.streams[0].bring("iopub", STATUS)
    link.answers[1].set_result({"generation": 2})
    assert [(await started.told.get())["phase"] for _ in range(2)] == ["ready", "ready"]
    started.kernel.close()


async def restarted_while_cut() -> tuple[NotedLink, RemoteKernel, list[Any]]:
    """A kernel of generation 3 that is asked to restart while its link is cut, and what its readers are told."""
    link, following, events = NotedLink(), RecordFanout(), list[Any]()
    following.read(lambda _seq, channel, parts: events.append(json.loads(parts[0])) if channel == "event" else None, 0)
    kernel = RemoteKernel(link, following, lambda _progress: None, generation=2)  # type: ignore[arg-type]
    starting = asyncio.create_task(kernel.start(LAUNCH))
    await link.is_asked.wait()
    link.answers[0].set_result({"generation": 3, "execution_state": "idle"})
    await starting
    await kernel.wait_until_up()
    link.is_up = False
    await kernel.restart(LAUNCH)
    return link, kernel, events


async def turns() -> None:
    """Let the tasks do what they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_restart_that_the_agent_refuses_ends_no_kernel_that_goes_on() -> None:
    link, kernel, events = await restarted_while_cut()
    kernel.send("shell", CELL)
    link.answers[1].set_exception(EnvironmentFailed("The disk is full."))
    await turns()
    link.answers[2].set_result({"alive": True, "generation": 3})
    await turns()
    assert link.asked[-1] == "kernel_info"
    assert kernel.exit_code is None
    assert [(event["event"], event["message"]) for event in events] == [("words", "The disk is full.")]
    link.streams[0].event(event="exited", generation=3, exit_code=1)
    assert kernel.exit_code == 1
    kernel.close()


async def test_a_restart_while_the_record_goes_is_followed_in_the_new_record() -> None:
    link, kernel, _ = await restarted_while_cut()
    link.streams[0].is_closed = True
    link.streams[0].event(event="gone", message="The worker has no such kernel.")
    link.answers[1].set_result({"generation": 1})
    await turns()
    _, stream = link.streams
    kernel.send("shell", CELL)
    stream.event(event="started", generation=1)
    stream.bring("iopub", STATUS)
    stream.event(event="exited", generation=1, exit_code=1)
    assert kernel.exit_code == 1
    kernel.close()


async def test_a_cell_behind_a_restart_is_answered_once_when_the_link_is_lost() -> None:
    link, kernel, events = await restarted_while_cut()
    kernel.send("shell", CELL)
    kernel.refuse_waiting(error := NodeNotFound("The node is gone."))
    link.answers[1].set_exception(error)
    await kernel.wait()
    await turns()
    assert [event["event"] for event in events] == ["not_run", "words"]


def control_request(msg_type: str, after_s: float, **content: Any) -> list[bytes]:
    """What Jupyter sends before it ends a process, made so many seconds from now."""
    date = (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat().replace("+00:00", "Z")
    header = {"msg_type": msg_type, "msg_id": "2", "date": date}
    return [b"page", b"<IDS|MSG>", b"", *(json.dumps(part).encode() for part in (header, {}, {}, content))]


@pytest.mark.parametrize(("after_s", "is_late"), [(-60, True), (60, False)], ids=["before the launch", "after it"])
@pytest.mark.parametrize(("msg_type", "content"), [("shutdown_request", {"restart": True}), ("interrupt_request", {})])
async def test_a_request_to_end_or_interrupt_that_is_slower_than_the_restart_is_not_for_the_new_process(
    msg_type: str, content: dict[str, Any], after_s: float, is_late: bool
) -> None:
    _, kernel, _ = await restarted_while_cut()
    assert kernel.is_late(control_request(msg_type, after_s, **content)) is is_late
    kernel.close()


async def test_a_shutdown_that_is_for_good_is_never_late() -> None:
    _, kernel, _ = await restarted_while_cut()
    assert not kernel.is_late(control_request("shutdown_request", -60, restart=False))
    kernel.close()


async def test_a_kernel_that_is_asked_for_on_a_lost_link_is_refused() -> None:
    link = NotedLink()
    started = Started(link)
    starting = asyncio.create_task(started.kernel.start(LAUNCH))
    await link.is_asked.wait()
    link.answers[0].set_exception(WorkerUnreachable("It is gone."))
    with pytest.raises(WorkerUnreachable):
        await starting
    assert started.kernel.exit_code is not None
