"""What the project's switches refuse, through Google's client: the words, the code, and that nothing is made."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import tpu_v2

SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
NUMBER = "123456789012"


def node_of(cloud: Any, **fields: Any) -> tpu_v2.Node:
    emulator = cloud.emulator
    given = {"accelerator_type": emulator.accelerator_type, "runtime_version": emulator.runtime_version, **fields}
    return tpu_v2.Node(**given)


async def ask_for_queued(cloud: Any, queued_id: str = "q1", **fields: Any) -> Any:
    """The operation of a create of a queued resource with one node."""
    tpu = tpu_v2.QueuedResource.Tpu
    spec = tpu.NodeSpec(parent=cloud.emulator.parent, node_id=f"{queued_id}-n", node=node_of(cloud))
    queued = tpu_v2.QueuedResource(tpu=tpu(node_spec=[spec]), **fields)
    return await cloud.client.create_queued_resource(
        parent=cloud.emulator.parent, queued_resource_id=queued_id, queued_resource=queued
    )


async def names(cloud: Any) -> list[str]:
    return [node.name async for node in await cloud.client.list_nodes(parent=cloud.emulator.parent)]


async def test_a_disabled_api_refuses_every_call_until_it_is_enabled(cloud: Any) -> None:
    cloud.control.set_project(api_enabled=False)

    for call in (cloud.ask_for_node(), cloud.get(), names(cloud)):
        with pytest.raises(exceptions.PermissionDenied) as caught:
            await call
        assert caught.value.message == (
            f"Cloud TPU API has not been used in project {NUMBER} before or it is disabled. Enable it by visiting "
            f"https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project={NUMBER} then retry. "
            "If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry."
        )
        assert caught.value.details[0].reason == "SERVICE_DISABLED"

    cloud.control.set_project(api_enabled=True)
    assert await names(cloud) == []


async def test_a_denied_permission_refuses_its_methods_only(cloud: Any) -> None:
    cloud.control.set_project(denied_permissions=["tpu.nodes.list", "tpu.runtimeversions.*"])

    with pytest.raises(exceptions.PermissionDenied) as caught:
        await names(cloud)
    assert caught.value.message == (
        f"Permission 'tpu.nodes.list' denied on '{cloud.emulator.parent}' (or it may not exist)."
    )
    with pytest.raises(exceptions.PermissionDenied, match=r"Permission 'tpu\.runtimeversions\.list' denied"):
        await cloud.client.list_runtime_versions(parent=cloud.emulator.parent)
    with pytest.raises(exceptions.NotFound):
        await cloud.get()


@pytest.mark.parametrize("denied", ["us-central1-a", "us-central1"])
async def test_a_location_policy_forbids_a_zone_or_a_whole_region(cloud: Any, denied: str) -> None:
    cloud.control.set_project(denied_locations=[denied])

    with pytest.raises(exceptions.PermissionDenied) as caught:
        await cloud.ask_for_node()

    assert caught.value.message == "Permission denied on 'locations/us-central1-a' (or it may not exist)."
    assert dict(caught.value.details[0].metadata) == {
        "consumer": f"projects/{cloud.emulator.project}",
        "location": "us-central1-a",
        "service": "tpu.googleapis.com",
    }
    elsewhere = f"projects/{cloud.emulator.project}/locations/us-south1-a"
    assert [node async for node in await cloud.client.list_nodes(parent=elsewhere)] == []


@pytest.mark.parametrize(
    ("allowlist", "is_allowed"),
    [
        ([], False),
        (["v5p", "v5litepod-4"], False),
        (["v5e@us-south1-a"], False),
        (["v5e"], True),
        (["v5litepod-8"], True),
        (["v5e@us-central1-a"], True),
        (None, True),
    ],
)
async def test_an_allowlist_names_generations_types_and_zones(
    cloud: Any, allowlist: list[str] | None, is_allowed: bool
) -> None:
    cloud.control.set_project(allowlist=allowlist)

    if is_allowed:
        await cloud.ask_for_node()
        return
    with pytest.raises(exceptions.PermissionDenied) as caught:
        await cloud.ask_for_node()
    assert caught.value.message == (
        'User does not have permission to submit requests for accelerator type "v5litepod-8" in location us-central1-a.'
    )


async def test_a_closed_queue_refuses_in_its_own_words(cloud: Any) -> None:
    cloud.control.set_project(allowlist=[])

    with pytest.raises(exceptions.PermissionDenied) as caught:
        await ask_for_queued(cloud)

    assert caught.value.message == (
        "User does not have permission to submit requests into this queue for accelerator type v5litepod-8 in location "
        "us-central1-a."
    )


async def test_more_creates_than_a_minute_allows_are_refused_until_the_minute_is_over(cloud: Any) -> None:
    cloud.control.pause()
    cloud.control.set_project(creates_per_minute=2)
    await cloud.ask_for_node("n1")
    await cloud.ask_for_node("n2")

    with pytest.raises(exceptions.ResourceExhausted) as caught:
        await cloud.ask_for_node("n3")
    assert "limit 'Maximum number of CreateNode requests per minute' of service 'tpu.googleapis.com'" in (
        caught.value.message
    )
    assert caught.value.details[0].reason == "RATE_LIMIT_EXCEEDED"

    cloud.control.advance(61)
    await cloud.ask_for_node("n3")


async def test_a_used_up_quota_refuses_a_queued_resource_as_it_does_a_node(cloud: Any) -> None:
    cloud.control.set_quota(SERVING, cloud.emulator.zone, 4)

    for call in (cloud.ask_for_node(), ask_for_queued(cloud)):
        with pytest.raises(exceptions.ResourceExhausted) as caught:
            await call
        assert caught.value.message == f"Quota limit '{SERVING}' has been exceeded. Limit: 4 in zone us-central1-a."
        (violation,) = caught.value.details[0].violations
        assert (violation.subject, violation.description) == (
            f"project:{NUMBER}",
            f"Quota '{SERVING}' exhausted. Limit 4 in zone us-central1-a",
        )
    assert await names(cloud) == []


async def test_a_queued_resource_counts_against_the_quota_before_it_has_a_node(cloud: Any) -> None:
    cloud.control.set_capacity(cloud.emulator.zone, "v5e", 0)
    cloud.control.set_quota(SERVING, cloud.emulator.zone, 8)

    await ask_for_queued(cloud)

    with pytest.raises(exceptions.ResourceExhausted):
        await cloud.ask_for_node()


async def test_a_limit_of_the_region_holds_where_the_zone_has_room(cloud: Any) -> None:
    by_region = SERVING.replace("Zone", "Region")
    cloud.control.set_quota(by_region, "us-central1", 0)

    with pytest.raises(exceptions.ResourceExhausted) as caught:
        await cloud.ask_for_node()

    assert caught.value.message == f"Quota limit '{by_region}' has been exceeded. Limit: 0 in region us-central1."


async def test_a_new_project_may_hold_little_and_is_told_every_limit(cloud: Any) -> None:
    cloud.control.set_project(quota_profile="new_project")

    with pytest.raises(exceptions.ResourceExhausted) as caught:
        await cloud.ask_for_node()
    assert caught.value.message == f"Quota limit '{SERVING}' has been exceeded. Limit: 4 in zone us-central1-a."

    parent = f"projects/{cloud.emulator.project}/locations/us-central1-a"
    node = tpu_v2.Node(accelerator_type="v2-32", runtime_version="tpu-ubuntu2204-base")
    with pytest.raises(exceptions.ResourceExhausted) as caught:
        await cloud.client.create_node(parent=parent, node_id="n2", node=node)
    assert caught.value.message == (
        "Quota limit 'TPUV2sPodPerProjectPerRegionForTPUAPI,TPUV2sPodPerProjectPerZoneForTPUAPI' has been exceeded. "
        "Limit: 0,0 in region us-central1,zone us-central1-a."
    )
    await cloud.ask_for_node(accelerator_type="v5litepod-4")


async def test_switches_and_limits_outlive_a_restart_and_a_reset_clears_them(cloud: Any) -> None:
    cloud.control.set_project(denied_permissions=["tpu.nodes.get"], addresses_per_region=3)
    cloud.control.set_quota(SERVING, cloud.emulator.zone, 4)

    cloud.emulator.restart()
    await cloud.reconnect()
    with pytest.raises(exceptions.PermissionDenied):
        await cloud.get()
    with pytest.raises(exceptions.ResourceExhausted):
        await cloud.ask_for_node()
    assert cloud.control.project()["addresses_per_region"] == 3

    cloud.control.reset()
    with pytest.raises(exceptions.NotFound):
        await cloud.get()
    await cloud.ask_for_node()


@pytest.mark.parametrize(
    "switches",
    [
        {"api_enabled": "no"},
        {"denied_permissions": "tpu.nodes.get"},
        {"allowlist": [5]},
        {"allowlist": ["v5"]},
        {"allowlist": ["v5e@mars"]},
        {"allowlist": ["v5e@"]},
        {"denied_permissions": ["nodes"]},
        {"denied_locations": ["mars-west1-a"]},
        {"addresses_per_region": -1},
        {"creates_per_minute": 1.5},
        {"quota_profile": "rich"},
        {"stop_refused_for": ["everything"]},
        {"unheard_of": True},
    ],
    ids=repr,
)
def test_nonsense_changes_no_switch(emulator: Any, switches: dict[str, Any]) -> None:
    from jupyter_tpu.emulator.control.client import ControlRefused

    before = emulator.control.project()

    with pytest.raises(ControlRefused):
        emulator.control.set_project(**switches)

    assert emulator.control.project() == before


async def test_a_block_of_addresses_cannot_be_had_twice(cloud: Any) -> None:
    await cloud.ask_for_node("n1", cidr_block="10.1.2.8/29")

    with pytest.raises(exceptions.InvalidArgument, match=r"cidr_block 10\.1\.2\.8/29 is used"):
        await cloud.ask_for_node("n2", cidr_block="10.1.2.8/29")
    await cloud.ask_for_node("n3", cidr_block="10.1.2.16/29")
