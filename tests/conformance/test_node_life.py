"""A node's whole life, through each of Google's clients."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

NODE = {
    "acceleratorType": "v5litepod-8",
    "runtimeVersion": "v2-alpha-tpuv5-lite",
    "labels": {"owner": "me"},
    "metadata": {"ssh-keys": "me:ssh-ed25519 AAAA"},
}


async def test_a_node_lives_from_create_to_delete(driver: Any, emulator: Any, refused: Any) -> None:
    name = emulator.node_name("n1")

    created = await driver.create(emulator.parent, "n1", NODE)
    assert (created["name"], created["state"], created["health"]) == (name, "READY", "HEALTHY")
    assert created["acceleratorConfig"] == {"type": "V5LITE_POD", "topology": "2x4"}
    assert isinstance(created["id"], str)
    (endpoint,) = created["networkEndpoints"]
    assert ipaddress.ip_address(endpoint.pop("ipAddress")).is_loopback
    assert endpoint == {"port": 8470, "accessConfig": {"externalIp": "127.0.0.1"}}
    assert await driver.list(f"projects/{emulator.project}/locations/-") == [name]

    updated = await driver.set_labels(name, {"purpose": "test"})
    assert updated["labels"] == {"purpose": "test"}
    assert updated["metadata"] == NODE["metadata"]

    assert (await driver.stop(name))["state"] == "STOPPED"
    assert (await driver.start(name))["state"] == "READY"

    await driver.delete(name)
    assert await driver.list(emulator.parent) == []
    with pytest.raises(refused) as missing:
        await driver.get(name)
    assert missing.value.status == 404
    assert emulator.control.billing() == []


async def test_a_refusal_carries_code_message_and_details(driver: Any, emulator: Any, refused: Any) -> None:
    quota = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
    emulator.control.set_quota(quota, emulator.zone, 4)

    with pytest.raises(refused) as caught:
        await driver.create(emulator.parent, "n1", NODE)

    assert caught.value.status == 429
    assert f"Quota limit '{quota}' has been exceeded. Limit: 4 in zone {emulator.zone}." in caught.value.message
    assert caught.value.details == ["QuotaFailure"]
    assert await driver.list(emulator.parent) == []


async def test_a_stock_out_ends_the_operation_and_rolls_the_node_back(driver: Any, emulator: Any, failed: Any) -> None:
    emulator.control.add_fault("CreateNode", "stockout")

    with pytest.raises(failed) as caught:
        await driver.create(emulator.parent, "n1", NODE)

    assert caught.value.code == 8
    assert f'There is no more capacity in the zone "{emulator.zone}"' in caught.value.message
    assert await driver.list(emulator.parent) == []
    assert emulator.control.ledger()["total_usd"] == 0


async def test_a_taken_name_is_a_conflict(driver: Any, emulator: Any, refused: Any) -> None:
    await driver.create(emulator.parent, "n1", NODE)

    with pytest.raises(refused) as caught:
        await driver.create(emulator.parent, "n1", NODE)

    assert (caught.value.status, caught.value.details) == (409, ["ResourceInfo"])
