"""A queued resource's whole life, through each of Google's clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.api_core import exceptions

NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}


def queued(emulator: Any, **fields: Any) -> dict[str, Any]:
    spec = {"parent": emulator.parent, "nodeId": "n1", "node": NODE}
    return {"tpu": {"nodeSpec": [spec]}, **fields}


async def reached(driver: Any, name: str, state: str) -> dict[str, Any]:
    """The queued resource once it is in a state; the API offers nothing but asking again."""
    async with asyncio.timeout(120):
        while (shown := await driver.get_queued(name))["state"]["state"] != state:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return shown


async def test_a_queued_resource_lives_from_create_to_delete(driver: Any, emulator: Any, refused: Any) -> None:
    name = f"{emulator.parent}/queuedResources/q1"

    created = await driver.create_queued(emulator.parent, "q1", queued(emulator, spot={}))
    emulator.control.advance(1000)
    active = await reached(driver, name, "ACTIVE")
    node = await driver.get(emulator.node_name("n1"))

    assert (created["name"], active["name"]) == (name, name)
    assert active["tpu"]["nodeSpec"][0]["nodeId"] == "n1"
    assert node["queuedResource"] == name
    assert node["schedulingConfig"]["spot"] is True
    assert await driver.list_queued(f"projects/{emulator.project}/locations/-") == [name]
    with pytest.raises(refused):
        await driver.delete_queued(name)
    await force_delete(driver, name)
    assert await driver.list_queued(emulator.parent) == []
    assert await driver.list(emulator.parent) == []


async def force_delete(driver: Any, name: str) -> None:
    """v2alpha1's clients declare a queued resource as the result, and the service sends an Empty."""
    if driver.version == "v2alpha1" and hasattr(driver, "client"):
        with pytest.raises(
            (TypeError, exceptions.GoogleAPICallError), match=r"google\.protobuf\.Empty|Could not convert"
        ):
            await driver.delete_queued(name, force=True)
    else:
        await driver.delete_queued(name, force=True)


async def test_a_multislice_request_names_its_nodes(driver: Any, emulator: Any) -> None:
    params = {"nodeCount": 2, "nodeIdPrefix": "slice"}
    word = "multisliceParams" if driver.version == "v2" else "multiNodeParams"
    spec = {"parent": emulator.parent, "node": NODE, word: params}

    await driver.create_queued(emulator.parent, "q1", {"tpu": {"nodeSpec": [spec]}})
    emulator.control.advance(1000)
    shown = await reached(driver, f"{emulator.parent}/queuedResources/q1", "ACTIVE")

    assert await driver.list(emulator.parent) == [emulator.node_name("slice-0"), emulator.node_name("slice-1")]
    assert shown["tpu"]["nodeSpec"][0][word] == params


async def test_a_request_over_the_quota_is_refused_at_once(driver: Any, emulator: Any, refused: Any) -> None:
    emulator.control.set_quota("TPUV5sLitepodServingPerProjectPerZoneForTPUAPI", emulator.zone, 4)

    with pytest.raises(refused) as caught:
        await driver.create_queued(emulator.parent, "q1", queued(emulator))

    assert (caught.value.status, caught.value.details) == (429, ["QuotaFailure"])
    assert await driver.list_queued(emulator.parent) == []
