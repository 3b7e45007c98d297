"""What the queue does not take, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.longrunning import operations_pb2
from google.rpc import code_pb2
from googleapiclient import errors as discovery_errors

from tests.emulator.queued_resources.queued_cloud import QueuedCloud, State

SERVING_QUOTA = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
SPOT_QUOTA = "TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI"


@pytest.fixture
def queue(cloud: Any) -> QueuedCloud:
    cloud.control.pause()
    return QueuedCloud(cloud)


async def test_a_queued_resource_with_nodes_is_not_deleted_without_force(queue: QueuedCloud) -> None:
    await queue.active()

    with pytest.raises(exceptions.InvalidArgument, match="delete is not supported while in state ACTIVE"):
        await queue.delete()

    assert await queue.state() == State.ACTIVE


async def test_a_queued_resource_is_not_deleted_twice(queue: QueuedCloud) -> None:
    await queue.active()
    await queue.delete(force=True)

    with pytest.raises(exceptions.InvalidArgument, match="delete is not supported while in state DELETING"):
        await queue.delete(force=True)


async def test_only_an_active_queued_resource_is_reset(queue: QueuedCloud) -> None:
    await queue.ask()

    with pytest.raises(exceptions.InvalidArgument, match="reset is not supported while in state CREATING"):
        await queue.client.reset_queued_resource(tpu_v2.ResetQueuedResourceRequest(name=queue.name()))


async def test_a_node_of_a_queued_resource_cannot_be_stopped(queue: QueuedCloud) -> None:
    await queue.active()

    with pytest.raises(exceptions.InvalidArgument, match="stop is not supported for a node of a queued resource"):
        await queue.client.stop_node(tpu_v2.StopNodeRequest(name=queue.emulator.node_name("n1")))


@pytest.mark.parametrize("verb", ["get", "delete"])
async def test_a_queued_resource_that_is_missing_is_not_found(queue: QueuedCloud, verb: str) -> None:
    with pytest.raises(exceptions.NotFound):
        await getattr(queue, verb)("missing")


async def test_an_id_that_is_taken_is_refused(queue: QueuedCloud) -> None:
    await queue.ask()

    with pytest.raises(exceptions.AlreadyExists):
        await queue.ask("q1", queue.spec("other"))


async def test_a_node_id_that_is_taken_is_refused(queue: QueuedCloud) -> None:
    await queue.cloud.ask_for_node("n1")

    with pytest.raises(exceptions.AlreadyExists, match="nodes/n1"):
        await queue.ask()


async def test_a_node_id_that_was_taken_meanwhile_fails_the_request(queue: QueuedCloud) -> None:
    await queue.ask()
    await queue.cloud.ask_for_node("n1")
    queue.control.advance(30)

    queued = await queue.get()

    assert (queued.state.state, queued.state.failed_data.error.code) == (State.FAILED, code_pb2.ALREADY_EXISTS)


SPECS: dict[str, Callable[[QueuedCloud], Any]] = {
    "node_count must be 2 to 256": lambda queue: queue.slices(1),
    "parent 'projects/demo-project/locations/us-south1-a' must be": lambda queue: elsewhere(queue),
    "node_id or multislice_params must be set": lambda queue: queue.spec(""),
    "node_id 'Bad' must match": lambda queue: queue.spec("Bad"),
    "the accelerator v4-8 was not found in zone": lambda queue: queue.spec(accelerator_type="v4-8"),
    "runtime_version must be set": lambda queue: queue.spec(runtime_version=""),
}


def elsewhere(queue: QueuedCloud) -> Any:
    spec = queue.spec()
    spec.parent = f"projects/{queue.emulator.project}/locations/us-south1-a"
    return spec


@pytest.mark.parametrize("words", SPECS)
async def test_a_spec_that_cannot_be_made_is_refused_at_once(queue: QueuedCloud, words: str) -> None:
    with pytest.raises(exceptions.InvalidArgument) as caught:
        await queue.ask("q1", SPECS[words](queue))

    assert words in caught.value.message
    assert await queue.listed() == []


async def test_two_specs_of_one_name_are_refused(queue: QueuedCloud) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="is used twice"):
        await queue.ask("q1", queue.spec("n"), queue.spec("n"))


async def test_a_moment_that_has_passed_is_refused(queue: QueuedCloud) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="valid_until_time must be in the future"):
        await queue.ask(queueing_policy={"valid_until_time": {"seconds": 1}})


async def test_quota_is_asked_before_anything_is_queued(queue: QueuedCloud) -> None:
    queue.control.set_quota(SERVING_QUOTA, queue.emulator.zone, 8)

    with pytest.raises(exceptions.ResourceExhausted, match=f"Quota limit '{SERVING_QUOTA}' has been exceeded"):
        await queue.ask("q1", queue.slices(2))

    assert await queue.listed() == []
    await queue.ask()


@pytest.mark.parametrize("end", ["preempted", "expired"])
async def test_a_leftover_holds_its_quota_until_it_is_deleted(queue: QueuedCloud, end: str) -> None:
    queue.control.set_quota(SPOT_QUOTA, queue.emulator.zone, 8)
    if end == "expired":
        queue.control.set_capacity(queue.emulator.zone, "v5e", 0)
    await queue.active(spot={}, queueing_policy={"valid_until_duration": {"seconds": 60}})
    if end == "preempted":
        queue.control.preempt(queue.emulator.node_name("n1"))
        queue.control.advance(30)
    assert await queue.nodes() == {}

    with pytest.raises(exceptions.ResourceExhausted):
        await queue.ask("q2", queue.spec("n2"), spot={})
    await queue.delete()
    queue.control.advance(30)

    await queue.ask("q2", queue.spec("n2"), spot={})


async def test_flex_start_takes_preemptible_quota(queue: QueuedCloud) -> None:
    queue.control.set_quota(SPOT_QUOTA, queue.emulator.zone, 8)
    queue.control.set_quota(SERVING_QUOTA, queue.emulator.zone, 0)
    queue.ask_alpha(provisioningModel="FLEX_START")

    with pytest.raises(exceptions.ResourceExhausted, match=SPOT_QUOTA):
        await queue.ask("q2", queue.spec("n2"), spot={})


async def test_a_type_that_is_not_on_the_allow_list_is_refused_in_the_words_of_the_queue(queue: QueuedCloud) -> None:
    queue.control.set_project(allowlist=["v6e"])

    with pytest.raises(exceptions.PermissionDenied) as caught:
        await queue.ask()

    assert caught.value.message == (
        "User does not have permission to submit requests into this queue for accelerator type v5litepod-8 in "
        "location us-central1-a."
    )


async def test_flex_start_where_it_is_not_offered_fails_its_operation(queue: QueuedCloud) -> None:
    zone = "us-south1-a"
    parent = f"projects/{queue.emulator.project}/locations/{zone}"
    body = queue.alpha_body(provisioningModel="FLEX_START")
    body["tpu"]["nodeSpec"][0]["parent"] = parent
    asked = queue.alpha("queuedResources", "create", parent=parent, queuedResourceId="q1", body=body)
    queue.control.advance(5)

    operation = await queue.client.get_operation(operations_pb2.GetOperationRequest(name=asked["name"]))

    assert operation.error.code == code_pb2.INVALID_ARGUMENT
    assert operation.error.message == (
        f'FLEX_START provisioning model is not supported for accelerator type "v5litepod-8" in location "{zone}"'
    )
    assert await queue.listed() == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"provisioningModel": "FLEX_START", "spot": {}}, "FLEX_START cannot be combined with another tier"),
        ({"provisioningModel": "STANDARD", "bestEffort": {}}, "STANDARD cannot be combined with another tier"),
        (
            {"provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "604801s"}},
            "max_run_duration must be more than 0 and at most 7 days",
        ),
        ({"runDuration": {"terminationTime": "2020-01-01T00:00:00Z"}}, "termination_time must be in the future"),
        ({"guaranteed": {"minDuration": "-5s"}}, "min_duration must not be negative"),
    ],
)
async def test_a_tier_that_contradicts_itself_is_refused(
    queue: QueuedCloud, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(discovery_errors.HttpError) as caught:
        queue.ask_alpha(**fields)

    assert (caught.value.status_code, words in caught.value.reason) == (400, True)


@pytest.mark.parametrize(
    "request_id", ["0c34", "00000000-0000-0000-0000-000000000000", "7ba9a16b3e2b4d0b9d3c2b1de3a4f001"]
)
async def test_a_request_id_that_is_no_uuid_is_refused(queue: QueuedCloud, request_id: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="must be a valid UUID"):
        await queue.ask(request_id=request_id)

    assert await queue.listed() == []
