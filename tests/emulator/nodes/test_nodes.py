"""What the API answers about nodes: states, validation, lists, masks."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2
from google.protobuf.field_mask_pb2 import FieldMask

State = tpu_v2.Node.State


async def test_a_new_node_is_listed_as_creating_before_it_is_ready(cloud: Any) -> None:
    cloud.control.set_time_scale(1)
    await cloud.ask_for_node()

    assert (await cloud.get()).state == State.CREATING
    assert cloud.control.billing() == []

    cloud.control.advance(90)
    cloud.control.set_time_scale(200)
    assert await state_reached(cloud, State.READY)


async def state_reached(cloud: Any, state: State) -> bool:
    while (await cloud.get()).state != state:
        cloud.control.advance(1)
    return True


async def test_a_node_has_one_endpoint_and_one_door_per_vm(cloud: Any) -> None:
    node = await cloud.create(accelerator_type="v5litepod-16")

    workers = await cloud.guest_items()
    assert len(node.network_endpoints) == 4
    assert len({each["hostkeys/ssh-ed25519"] for each in workers}) == 4
    assert len({each["emulator/ssh-port"] for each in workers}) == 4
    assert [each["guestInventory/Hostname"][-4:] for each in workers] == [f"-w-{n}" for n in range(4)]
    assert len(await cloud.guest_items(worker_ids=("2",))) == 1
    with pytest.raises(exceptions.InvalidArgument):
        await cloud.guest_items(worker_ids=("4",))


async def test_a_query_path_narrows_guest_attributes_to_a_namespace(cloud: Any) -> None:
    node = await cloud.create()
    request = tpu_v2.GetGuestAttributesRequest(name=node.name, query_path="hostkeys/")

    answer = await cloud.client.get_guest_attributes(request)

    assert [item.key for item in answer.guest_attributes[0].query_value.items] == ["ssh-ed25519"]


async def test_a_node_can_be_asked_for_by_configuration(cloud: Any) -> None:
    config = tpu_v2.AcceleratorConfig(type_=tpu_v2.AcceleratorConfig.Type.V5LITE_POD, topology="2x4")

    node = await cloud.create(accelerator_type="", accelerator_config=config)

    assert node.accelerator_type == "v5litepod-8"


@pytest.mark.parametrize(("number", "name"), [(7, "V4"), (99, "99")])
async def test_a_configuration_that_the_zone_lacks_is_refused_by_name(cloud: Any, number: int, name: str) -> None:
    config = tpu_v2.AcceleratorConfig(topology="2x2x1")
    tpu_v2.AcceleratorConfig.pb(config).type_ = number

    with pytest.raises(exceptions.InvalidArgument, match=f"the accelerator {name}:2x2x1 was not found"):
        await cloud.ask_for_node(accelerator_type="", accelerator_config=config)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"accelerator_type": "v4-8"},
            'could not be found in the zonal accelerator configurations for "us-central1-a"',
        ),
        ({"accelerator_type": "v9-1"}, "the accelerator v9-1 was not found in zone us-central1-a [EID: 0x"),
        ({"accelerator_type": ""}, "accelerator_type or accelerator_config must be set"),
        ({"runtime_version": "windows-95"}, 'The runtime version "windows-95" was not found in zone us-central1-a'),
        ({"runtime_version": ""}, "runtime_version must be set"),
        ({"labels": {"Bad Key": "x"}}, "label 'Bad Key'"),
        ({"description": "x" * 513}, "description must have at most 512 characters"),
    ],
)
async def test_what_cannot_be_made_is_refused_at_once(cloud: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(exceptions.InvalidArgument) as caught:
        await cloud.ask_for_node(**fields)

    assert words in caught.value.message
    assert [node async for node in await cloud.client.list_nodes(parent=cloud.emulator.parent)] == []


@pytest.mark.parametrize("node_id", ["", "1st", "Upper", "ends-", "x" * 64, "a b", "a;b"])
async def test_a_bad_node_id_is_refused(cloud: Any, node_id: str) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        await cloud.ask_for_node(node_id)


async def test_an_unknown_zone_is_refused_with_the_location_policy(cloud: Any) -> None:
    with pytest.raises(exceptions.PermissionDenied) as caught:
        await cloud.client.list_nodes(parent=f"projects/{cloud.emulator.project}/locations/mars-west1-a")

    assert caught.value.message == "Permission denied on 'locations/mars-west1-a' (or it may not exist)."
    assert caught.value.details[0].reason == "LOCATION_POLICY_VIOLATED"


async def test_another_project_may_not_be_read(cloud: Any) -> None:
    with pytest.raises(exceptions.PermissionDenied, match="Read access to project 'other' was denied"):
        await cloud.client.get_node(name="projects/other/locations/us-central1-a/nodes/n1")


@pytest.mark.parametrize("verb", ["stop", "start", "delete"])
async def test_a_verb_on_a_missing_node_is_not_found(cloud: Any, verb: str) -> None:
    with pytest.raises(exceptions.NotFound):
        await getattr(cloud, verb)("missing")


async def test_a_verb_that_the_state_does_not_allow_is_refused(cloud: Any) -> None:
    await cloud.create()
    with pytest.raises(exceptions.InvalidArgument, match="start is not supported while in state READY"):
        await cloud.start()

    await cloud.stop()
    with pytest.raises(exceptions.InvalidArgument, match="stop is not supported while in state STOPPED"):
        await cloud.stop()


async def test_a_preempted_node_stays_listed_counts_and_can_only_be_deleted(cloud: Any) -> None:
    quota = "TPUV5sPreemptibleLitepodServingPerProjectPerZoneForTPUAPI"
    cloud.control.set_quota(quota, cloud.emulator.zone, 8)
    spot = tpu_v2.SchedulingConfig(spot=True)
    node = await cloud.create(scheduling_config=spot)

    cloud.control.preempt(node.name)

    assert (await cloud.get()).state == State.PREEMPTED
    with pytest.raises(exceptions.ResourceExhausted):
        await cloud.ask_for_node("n2", scheduling_config=spot)
    with pytest.raises(exceptions.InvalidArgument, match="update is not supported while in state PREEMPTED"):
        await update(cloud, ["labels"], labels={"a": "b"})
    await cloud.delete()
    await cloud.create("n2", scheduling_config=spot)


async def update(cloud: Any, paths: list[str], **fields: Any) -> tpu_v2.Node:
    node = tpu_v2.Node(name=cloud.emulator.node_name("n1"), **fields)
    operation = await cloud.client.update_node(node=node, update_mask=FieldMask(paths=paths))
    return await operation.result(timeout=120)


async def test_an_update_changes_only_what_the_mask_names(cloud: Any) -> None:
    await cloud.create(labels={"a": "1"}, tags=["x"], description="old", metadata={"kept": "yes"})

    node = await update(cloud, ["labels", "tags"], labels={"b": "2"}, tags=["y", "z"], description="new")

    assert (dict(node.labels), list(node.tags)) == ({"b": "2"}, ["y", "z"])
    assert (node.description, dict(node.metadata)) == ("old", {"kept": "yes"})
    assert (await update(cloud, ["labels"])).labels == {}


@pytest.mark.parametrize("paths", [[], ["state"], ["runtime_version"], ["nonsense"]])
async def test_a_mask_that_names_nothing_or_the_wrong_field_is_refused(cloud: Any, paths: list[str]) -> None:
    await cloud.create()

    with pytest.raises(exceptions.InvalidArgument):
        await update(cloud, paths, description="x")


async def test_a_node_of_several_workers_cannot_be_stopped(cloud: Any) -> None:
    await cloud.create(accelerator_type="v5litepod-16")

    with pytest.raises(exceptions.InvalidArgument):
        await cloud.stop()


async def test_pages_cover_the_list_once_and_their_tokens_say_nothing(cloud: Any) -> None:
    for number in range(5):
        await cloud.ask_for_node(f"n{number}")
    request = tpu_v2.ListNodesRequest(parent=f"projects/{cloud.emulator.project}/locations/-", page_size=2)

    pages = [page async for page in (await cloud.client.list_nodes(request)).pages]

    assert [[node.name[-2:] for node in page.nodes] for page in pages] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert "n1" not in pages[0].next_page_token


async def test_a_list_shows_the_nodes_of_its_zone_only(cloud: Any) -> None:
    await cloud.ask_for_node()
    elsewhere = f"projects/{cloud.emulator.project}/locations/us-south1-a"

    assert [node async for node in await cloud.client.list_nodes(parent=elsewhere)] == []


async def test_a_node_made_again_under_its_name_has_another_id_and_host_key(cloud: Any) -> None:
    first = await cloud.create()
    (before,) = await cloud.guest_items()
    await cloud.delete()

    second = await cloud.create()
    (after,) = await cloud.guest_items()

    assert first.id != second.id
    assert before["hostkeys/ssh-ed25519"] != after["hostkeys/ssh-ed25519"]


async def test_types_versions_and_zones_come_from_the_catalogue(cloud: Any) -> None:
    client, parent = cloud.client, cloud.emulator.parent

    types = {each.type_: each async for each in await client.list_accelerator_types(parent=parent)}
    versions = [each.version async for each in await client.list_runtime_versions(parent=parent)]
    one = await client.get_accelerator_type(name=f"{parent}/acceleratorTypes/v5litepod-8")

    assert types["v5litepod-8"].accelerator_configs[0].topology == "2x4"
    assert one == types["v5litepod-8"]
    assert "v2-alpha-tpuv5-lite" in versions
    with pytest.raises(exceptions.NotFound):
        await client.get_runtime_version(name=f"{parent}/runtimeVersions/none")
    filtered = tpu_v2.ListAcceleratorTypesRequest(parent=parent, filter="type=v5litepod-1")
    assert [each.type_ async for each in await client.list_accelerator_types(filtered)] == ["v5litepod-1"]


async def test_locations_are_the_zones_of_the_catalogue(cloud: Any) -> None:
    from google.cloud.location import locations_pb2

    answer = await cloud.client.list_locations(
        locations_pb2.ListLocationsRequest(name=f"projects/{cloud.emulator.project}")
    )

    assert cloud.emulator.zone in [location.location_id for location in answer.locations]
