"""Scripted faults of calls, as Google's own clients see them over gRPC and over REST."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import grpc
import pytest
import requests
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport, TpuRestTransport
from google.cloud.tpu_v2alpha1.services.tpu.transports import TpuGrpcTransport as AlphaTransport
from google.longrunning import operations_pb2
from google.protobuf import json_format
from google.rpc import code_pb2

from jupyter_tpu.emulator.control.client import ControlRefused

State = tpu_v2.Node.State


@pytest.fixture
def rest(emulator: Any) -> Iterator[tpu_v2.TpuClient]:
    """google-cloud-tpu over REST."""
    address = emulator.rest.removeprefix("http://")
    transport = TpuRestTransport(host=address, credentials=AnonymousCredentials(), url_scheme="http")
    yield tpu_v2.TpuClient(transport=transport)
    transport.close()


@pytest.fixture
async def paused(cloud: Any) -> Any:
    """A cloud whose time moves only by `advance`."""
    cloud.control.pause()
    return cloud


async def names(cloud: Any, **request: Any) -> list[str]:
    found = await cloud.client.list_nodes(tpu_v2.ListNodesRequest(parent=cloud.emulator.parent, **request))
    return [node.name.rpartition("/")[2] async for node in found]


async def refusals(call: Callable[[], Any], times: int) -> list[bool]:
    """Which of so many calls were refused."""
    found = []
    for _ in range(times):
        try:
            await call()
            found.append(False)
        except exceptions.GoogleAPICallError:
            found.append(True)
    return found


ERRORS = [
    (429, exceptions.ResourceExhausted, exceptions.TooManyRequests),
    (500, exceptions.InternalServerError, exceptions.InternalServerError),
    (503, exceptions.ServiceUnavailable, exceptions.ServiceUnavailable),
    (504, exceptions.DeadlineExceeded, exceptions.GatewayTimeout),
]


@pytest.mark.parametrize(("code", "over_grpc", "over_rest"), ERRORS)
async def test_a_call_is_refused_with_a_chosen_code_and_message(
    cloud: Any, rest: tpu_v2.TpuClient, code: int, over_grpc: type[Exception], over_rest: type[Exception]
) -> None:
    cloud.control.add_fault("ListNodes", "error", code=code, message="chosen words", times=2)

    with pytest.raises(over_grpc, match="chosen words"):
        await names(cloud)
    with pytest.raises(over_rest, match="chosen words"):
        await asyncio.to_thread(rest.list_nodes, parent=cloud.emulator.parent)
    assert await names(cloud) == []


# -- the wire


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("drop", requests.exceptions.ConnectionError),
        ("applied_then_drop", requests.exceptions.ConnectionError),
        ("empty", json_format.ParseError),
        ("html", exceptions.BadGateway),
        ("truncated", json_format.ParseError),
    ],
)
async def test_a_broken_answer_over_rest_is_an_error_of_the_client(
    cloud: Any, rest: tpu_v2.TpuClient, kind: str, error: type[Exception]
) -> None:
    await cloud.ask_for_node()
    cloud.control.add_fault("GetNode", kind)

    with pytest.raises(error):
        await asyncio.to_thread(rest.get_node, name=cloud.emulator.node_name("n1"))

    assert (await asyncio.to_thread(rest.get_node, name=cloud.emulator.node_name("n1"))).name


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("drop", exceptions.ServiceUnavailable, "Connection reset by peer"),
        ("html", exceptions.ServiceUnavailable, "http2 header with status: 502"),
    ],
)
async def test_a_broken_answer_over_grpc_is_an_error_of_the_client(
    cloud: Any, kind: str, error: type[Exception], words: str
) -> None:
    await cloud.ask_for_node()
    cloud.control.add_fault("GetNode", kind)

    with pytest.raises(error, match=words):
        await cloud.get()

    assert (await cloud.get()).name


async def test_a_truncated_answer_over_grpc_is_none_at_all(cloud: Any) -> None:
    """The asynchronous gRPC of Python says nothing of it to its caller; the synchronous one raises."""
    await cloud.ask_for_node()
    cloud.control.add_fault("GetNode", "truncated", times=2)

    assert await cloud.get() is None
    with grpc.insecure_channel(cloud.emulator.grpc) as channel:
        client = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel, host=cloud.emulator.grpc))
        with pytest.raises(exceptions.InternalServerError, match="deserializing"):
            await asyncio.to_thread(client.get_node, name=cloud.emulator.node_name("n1"))


async def test_an_empty_answer_over_grpc_is_a_node_without_a_name(cloud: Any) -> None:
    await cloud.ask_for_node()
    cloud.control.add_fault("GetNode", "empty")

    assert (await cloud.get()).name == ""


@pytest.mark.filterwarnings("ignore:Unrecognized State enum value")
async def test_a_state_that_no_client_knows_comes_as_its_number(cloud: Any, rest: tpu_v2.TpuClient) -> None:
    await cloud.ask_for_node()
    cloud.control.add_fault("GetNode", "unknown_enum", times=2)

    assert (await cloud.get()).state == 99
    assert (await asyncio.to_thread(rest.get_node, name=cloud.emulator.node_name("n1"))).state == 99
    assert (await cloud.get()).state in (State.CREATING, State.READY)


async def test_a_state_that_no_client_knows_comes_as_a_word_in_plain_json(cloud: Any) -> None:
    await cloud.ask_for_node()
    cloud.control.add_fault("GetNode", "unknown_enum")

    answer = await asyncio.to_thread(requests.get, f"{cloud.emulator.rest}/v2/{cloud.emulator.node_name('n1')}")

    assert answer.json()["state"] == "STATE_OF_A_LATER_VERSION"


@pytest.mark.filterwarnings("ignore:Unrecognized State enum value")
async def test_clients_of_v2alpha1_meet_the_same_faults(cloud: Any) -> None:
    await cloud.ask_for_node()
    request = tpu_v2alpha1.GetNodeRequest(name=cloud.emulator.node_name("n1"))
    cloud.control.add_fault("GetNode", "unknown_enum")
    cloud.control.add_fault("GetNode", "html")
    cloud.control.add_fault("GetNode", "clock_skew", seconds=3600, times=1)

    with grpc.insecure_channel(cloud.emulator.grpc) as channel:
        client = tpu_v2alpha1.TpuClient(transport=AlphaTransport(channel=channel, host=cloud.emulator.grpc))
        strange = await asyncio.to_thread(client.get_node, request)
        with pytest.raises(exceptions.ServiceUnavailable, match="502"):
            await asyncio.to_thread(client.get_node, request)
        right = await asyncio.to_thread(client.get_node, request)

    assert strange.state == 99
    assert strange.create_time - right.create_time == datetime.timedelta(hours=1)


@pytest.mark.parametrize("kind", ["drop", "empty", "html", "error", "unavailable"])
async def test_a_call_may_be_done_although_its_answer_is_lost(cloud: Any, rest: tpu_v2.TpuClient, kind: str) -> None:
    cloud.control.add_fault("CreateNode", kind, applied=True)
    node = tpu_v2.Node(accelerator_type=cloud.emulator.accelerator_type, runtime_version=cloud.emulator.runtime_version)

    with pytest.raises(Exception, match=r".") as caught:
        await asyncio.to_thread(rest.create_node, parent=cloud.emulator.parent, node_id="n1", node=node)

    assert not isinstance(caught.value, exceptions.AlreadyExists)
    assert await names(cloud) == ["n1"]


async def test_a_queue_may_be_closed_to_the_project(cloud: Any) -> None:
    cloud.control.add_fault("CreateQueuedResource", "not_allowlisted")
    node = tpu_v2.Node(accelerator_type="v5litepod-8", runtime_version=cloud.emulator.runtime_version)
    spec = tpu_v2.QueuedResource.Tpu.NodeSpec(parent=cloud.emulator.parent, node_id="n1", node=node)

    with pytest.raises(exceptions.PermissionDenied, match="into this queue for accelerator type v5litepod-8"):
        await cloud.client.create_queued_resource(
            parent=cloud.emulator.parent,
            queued_resource_id="q1",
            queued_resource=tpu_v2.QueuedResource(tpu={"node_spec": [spec]}),
        )


# -- which calls a fault hits


async def test_a_fault_may_hit_the_calls_for_one_node_only(cloud: Any) -> None:
    await cloud.ask_for_node("n1")
    await cloud.ask_for_node("n2")
    cloud.control.add_fault("GetNode", "unavailable", target="n2")
    cloud.control.add_fault("GetNode", "unavailable", target=cloud.emulator.node_name("n2"))

    assert (await cloud.get("n1")).name
    assert await refusals(lambda: cloud.get("n2"), 3) == [True, True, False]


async def test_a_fault_may_hit_the_create_of_one_node_only(cloud: Any) -> None:
    cloud.control.add_fault("CreateNode", "unavailable", target="n2")

    await cloud.ask_for_node("n1")
    with pytest.raises(exceptions.ServiceUnavailable):
        await cloud.ask_for_node("n2")


async def test_a_fault_may_hit_one_zone_only(cloud: Any) -> None:
    cloud.control.add_fault("ListNodes", "flaky_zone", target="us-east5-b")

    assert await names(cloud) == []
    with pytest.raises(exceptions.ServiceUnavailable, match="502:Bad Gateway"):
        await cloud.client.list_nodes(parent=cloud.emulator.parent.replace(cloud.emulator.zone, "us-east5-b"))


async def test_a_fault_for_a_node_hits_the_operations_on_it(cloud: Any) -> None:
    operation = await cloud.ask_for_node("n1")
    cloud.control.add_fault("GetOperation", "unavailable", target="n1")
    request = operations_pb2.GetOperationRequest(name=operation.operation.name)

    assert await refusals(lambda: cloud.client.get_operation(request), 2) == [True, False]


async def test_a_fault_may_begin_with_the_nth_call(cloud: Any) -> None:
    cloud.control.add_fault("ListNodes", "unavailable", nth=3, times=2)

    assert await refusals(lambda: names(cloud), 6) == [False, False, True, True, False, False]


async def test_the_same_seed_hits_the_same_calls(cloud: Any) -> None:
    runs = []
    for _ in range(2):
        number = cloud.control.add_fault("ListNodes", "unavailable", probability=0.5, seed=7, times=None)
        runs.append(await refusals(lambda: names(cloud), 16))
        cloud.control.clear_faults(number)

    assert runs[0] == runs[1]
    assert True in runs[0]
    assert False in runs[0]


async def test_a_lasting_fault_goes_on_until_it_is_cleared(cloud: Any) -> None:
    number = cloud.control.add_fault("ListNodes", "unavailable", times=None)
    other = cloud.control.add_fault("GetNode", "unavailable")

    assert await refusals(lambda: names(cloud), 5) == [True] * 5
    cloud.control.clear_faults(number)
    assert await names(cloud) == []
    assert [fault["id"] for fault in cloud.control.faults()] == [other]


async def test_a_call_may_be_slow_and_fail(cloud: Any) -> None:
    cloud.control.add_fault("ListNodes", "unavailable")
    cloud.control.add_fault("ListNodes", "latency", seconds=0.01)

    with pytest.raises(exceptions.ServiceUnavailable):
        await names(cloud)

    assert cloud.control.faults() == []


async def test_an_answer_may_be_late_although_the_call_is_done(cloud: Any) -> None:
    cloud.control.add_fault("CreateNode", "latency", seconds=600, applied=True)
    slow = asyncio.ensure_future(cloud.ask_for_node())

    async with asyncio.timeout(120):
        while await names(cloud) == []:  # noqa: ASYNC110 - the API offers nothing but asking
            await asyncio.sleep(0.01)

    assert not slow.done()
    slow.cancel()


# -- rates and pages


async def test_calls_above_a_rate_are_refused_until_time_has_passed(paused: Any) -> None:
    paused.control.add_fault("ListNodes", "rate", limit=2, seconds=60)

    assert await refusals(lambda: names(paused), 4) == [False, False, True, True]
    paused.control.advance(60)
    assert await refusals(lambda: names(paused), 3) == [False, False, True]


async def test_a_page_token_may_expire(paused: Any) -> None:
    for node_id in ("a", "b", "c"):
        await paused.ask_for_node(node_id)
    paused.control.add_fault("ListNodes", "expired_token", seconds=60)
    request = tpu_v2.ListNodesRequest(parent=paused.emulator.parent, page_size=1)
    pages = (await paused.client.list_nodes(request)).pages
    await anext(pages)
    await anext(pages)

    paused.control.advance(60)

    with pytest.raises(exceptions.InvalidArgument, match="page_token"):
        await anext(pages)
    assert await names(paused, page_size=1) == ["a", "b", "c"]


# -- operations


async def test_a_half_created_node_stays_for_a_while_after_its_operation_failed(paused: Any) -> None:
    paused.control.add_fault("CreateNode", "half_created", seconds=600)
    operation = await paused.ask_for_node()
    paused.control.advance(90)

    shown = await paused.client.get_operation(operations_pb2.GetOperationRequest(name=operation.operation.name))
    assert (shown.done, shown.error.code, shown.error.message) == (True, 13, "an internal error has occurred")
    assert (await paused.get()).state == State.CREATING
    with pytest.raises(exceptions.AlreadyExists):
        await paused.ask_for_node()

    paused.control.advance(600)
    assert await names(paused) == []


async def test_a_half_created_node_is_remembered_over_a_crash(paused: Any) -> None:
    paused.control.add_fault("CreateNode", "half_created", seconds=600)
    await paused.ask_for_node()
    paused.control.advance(90)

    paused.emulator.kill()
    paused.emulator.start()
    await paused.reconnect()

    assert await names(paused) == ["n1"]
    paused.control.advance(600)
    assert await names(paused) == []


async def test_a_half_created_node_can_be_deleted_and_made_again(paused: Any) -> None:
    paused.control.add_fault("CreateNode", "half_created", seconds=600)
    await paused.ask_for_node()
    paused.control.advance(90)

    await paused.client.delete_node(name=paused.emulator.node_name("n1"))
    paused.control.advance(60)
    await paused.ask_for_node()
    paused.control.advance(600)

    assert (await paused.get()).state == State.READY


# -- eventual consistency and clocks


async def test_a_new_node_may_be_missing_from_lists_for_a_while(paused: Any) -> None:
    paused.control.add_fault("ListNodes", "not_yet_visible", seconds=30)
    await paused.ask_for_node()

    assert await names(paused) == []
    assert (await paused.get()).name
    paused.control.advance(31)
    assert await names(paused) == ["n1"]


async def test_a_new_node_may_be_not_found_for_a_while(paused: Any) -> None:
    paused.control.add_fault("GetNode", "not_yet_visible", seconds=30)
    await paused.ask_for_node()

    with pytest.raises(exceptions.NotFound):
        await paused.get()
    assert await names(paused) == ["n1"]
    paused.control.advance(31)
    assert (await paused.get()).name


@pytest.mark.parametrize("page_size", [0, 1])
async def test_a_deleted_node_may_be_shown_for_a_while(paused: Any, page_size: int) -> None:
    for node_id in ("a", "b", "c"):
        await paused.ask_for_node(node_id)
    paused.control.add_fault("*", "still_visible", seconds=300)
    await paused.client.delete_node(name=paused.emulator.node_name("b"))
    paused.control.advance(60)

    assert await names(paused, page_size=page_size) == ["a", "b", "c"]
    assert (await paused.get("b")).state == State.DELETING
    paused.control.advance(300)
    assert await names(paused, page_size=page_size) == ["a", "c"]
    with pytest.raises(exceptions.NotFound):
        await paused.get("b")


@pytest.mark.parametrize("seconds", [3600, -86_400])
async def test_timestamps_may_be_off(paused: Any, seconds: int) -> None:
    operation = await paused.ask_for_node()
    created = (await paused.get()).create_time.timestamp()
    paused.control.add_fault("*", "clock_skew", seconds=seconds)

    skewed = await paused.get()
    shown = await paused.client.get_operation(operations_pb2.GetOperationRequest(name=operation.operation.name))
    metadata = tpu_v2.OperationMetadata.pb(tpu_v2.OperationMetadata())
    shown.metadata.Unpack(metadata)

    assert skewed.create_time.timestamp() - created == pytest.approx(seconds, abs=0.001)
    assert metadata.create_time.ToSeconds() - int(created) == pytest.approx(seconds, abs=1)
    paused.control.clear_faults()
    assert (await paused.get()).create_time.timestamp() == created


@pytest.mark.parametrize("seconds", [0, 3600, -86_400])
async def test_each_answer_and_each_refusal_carries_the_real_date(paused: Any, seconds: int) -> None:
    await paused.ask_for_node()
    paused.control.advance(7 * 86_400)  # virtual time is not what a client compares with its own clock
    if seconds:
        paused.control.add_fault("*", "clock_skew", seconds=seconds)
    now = time.time() + seconds
    async with grpc.aio.insecure_channel(paused.emulator.grpc) as channel:
        call = channel.unary_unary("/google.cloud.tpu.v2.Tpu/GetNode")
        for node_id in ("my-node", "no-such-node"):
            name = paused.emulator.node_name(node_id)
            answer = call(tpu_v2.GetNodeRequest.serialize(tpu_v2.GetNodeRequest(name=name)))
            with contextlib.suppress(grpc.aio.AioRpcError):
                await answer
            metadata = dict(await answer.initial_metadata())
            assert parsedate_to_datetime(metadata["date"]).timestamp() == pytest.approx(now, abs=300)
            shown = await asyncio.to_thread(requests.get, f"{paused.emulator.rest}/v2/{name}", timeout=120)
            assert parsedate_to_datetime(shown.headers["Date"]).timestamp() == pytest.approx(now, abs=300)


# -- what cannot be asked for


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"kind": "error"}, "method is missing"),
        ({"method": "GetNode"}, "kind is missing"),
        ({"method": "GetNode", "kind": "earthquake"}, "unknown kind of fault 'earthquake'; kinds: api_disabled"),
        ({"method": "EatNode", "kind": "error"}, "error cannot affect 'EatNode'; methods: "),
        ({"method": "GetNode", "kind": "stockout"}, "stockout cannot affect 'GetNode'; methods: CreateNode, StartNode"),
        ({"method": "ListNodes", "kind": "half_created"}, "methods: CreateNode; * for any"),
        ({"method": "GetNode", "kind": "error", "color": 1}, "unknown field 'color'; fields: method, kind"),
        ({"method": "GetNode", "kind": "error", "code": 200}, "code: 200 is not an error code of google.rpc.Code"),
        ({"method": "GetNode", "kind": "error", "code": "OK"}, "code: 'OK' is not"),
        ({"method": "GetNode", "kind": "error", "times": 0}, "times: must be at least 1"),
        ({"method": "GetNode", "kind": "error", "nth": -1}, "nth: -1 is not a whole number"),
        ({"method": "GetNode", "kind": "error", "probability": 2}, "probability: 2 must be more than 0 and at most 1"),
        ({"method": "GetNode", "kind": "error", "seed": "x"}, "seed: 'x' is not a whole number"),
        ({"method": "GetNode", "kind": "error", "applied": "yes"}, "applied: 'yes' is neither true nor false"),
        ({"method": "GetNode", "kind": "latency", "seconds": -1}, "seconds: -1 is less than 0"),
        ({"method": ["GetNode"], "kind": "error"}, "method: ['GetNode'] is not a string"),
        ({"method": "GetNode", "kind": {}}, "kind: unknown kind of fault"),
        ({"method": "GetNode", "kind": "error", "target": 5}, "target: 5 is not a string"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_in_words(emulator: Any, asked: dict[str, Any], words: str) -> None:
    answer = requests.post(f"{emulator.rest}/emulator/v1/faults", json=asked, timeout=120)

    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == code_pb2.Code.Name(code_pb2.INVALID_ARGUMENT)
    assert words in answer.json()["error"]["message"]
    assert emulator.control.faults() == []


@pytest.mark.parametrize("number", ["7", "x", "-1", "1e400"])
def test_a_fault_that_does_not_wait_cannot_be_cleared(emulator: Any, number: str) -> None:
    with pytest.raises(ControlRefused, match=r"not found|not a whole number"):
        emulator.control.clear_faults(number)
