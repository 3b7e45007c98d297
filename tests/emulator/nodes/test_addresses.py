"""Which internal addresses workers get: their own, for as long as their node exists."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest

from jupyter_tpu.emulator.nodes.addresses import BLOCKS, Addresses
from jupyter_tpu.emulator.resources.protos import NodePb, new

ID = 5 * 256 + 7  # the id whose preferred block is 127.6.7


class Nodes:
    """The nodes that exist."""

    def __init__(self, *ids: int) -> None:
        self.by_name = {f"nodes/n{number}": new_node(f"nodes/n{number}", uid) for number, uid in enumerate(ids)}

    def __getitem__(self, number: int) -> NodePb:
        return self.by_name[f"nodes/n{number}"]

    def addresses(self) -> Addresses:
        return Addresses(self.by_name.get, is_shared=False)


def new_node(name: str, uid: int) -> NodePb:
    return new("Node", name=name, id=uid)


def test_the_workers_of_a_node_have_addresses_of_their_own() -> None:
    nodes = Nodes(ID)

    assert nodes.addresses().assign(nodes[0], 3) == ["127.6.7.1", "127.6.7.2", "127.6.7.3"]


def test_two_nodes_never_share_an_address() -> None:
    nodes = Nodes(ID, ID, ID + 1)
    addresses = nodes.addresses()

    found = [addresses.assign(nodes[number], 2)[1] for number in (0, 1, 2, 0)]

    assert found == ["127.6.7.2", "127.6.8.2", "127.6.9.2", "127.6.7.2"]


def test_a_node_of_more_workers_than_a_block_has_addresses_in_several() -> None:
    nodes = Nodes(ID, ID + 1, BLOCKS - 1)
    addresses = nodes.addresses()

    found = addresses.assign(nodes[0], 254)

    assert found[252:] == ["127.6.7.253", "127.6.8.1"]
    assert addresses.assign(nodes[1], 1) == ["127.6.9.1"]
    # none beyond the last block
    assert len(set(addresses.assign(nodes[2], 512))) == 512


def test_the_addresses_of_a_deleted_node_are_free_again() -> None:
    nodes = Nodes(ID, ID)
    addresses = nodes.addresses()
    addresses.assign(nodes[0], 1)
    # a namesake with another id is another node
    nodes.by_name["nodes/n0"] = new_node("nodes/n0", 3)

    assert addresses.assign(nodes[1], 1) == ["127.6.7.1"]


def test_a_node_keeps_its_addresses_even_if_they_do_not_follow_from_its_id() -> None:
    nodes = Nodes(ID, 1)
    nodes[1].network_endpoints.add(ip_address="127.6.7.1")
    after_a_restart = nodes.addresses()

    assert after_a_restart.assign(nodes[1], 1) == ["127.6.7.1"]
    assert after_a_restart.assign(nodes[0], 1) == ["127.6.8.1"]


def test_a_node_of_an_older_emulator_gets_addresses_that_exist() -> None:
    nodes = Nodes(ID)
    nodes[0].network_endpoints.add(ip_address="10.128.0.2")

    assert nodes.addresses().assign(nodes[0], 1) == ["127.6.7.1"]


def test_workers_share_the_only_loopback_address_of_other_systems() -> None:
    nodes = Nodes(ID)

    assert Addresses(nodes.by_name.get, is_shared=True).assign(nodes[0], 2) == ["127.0.0.1", "127.0.0.1"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no loopback address but 127.0.0.1")
async def test_addresses_can_be_listened_on_and_survive_a_restart_of_the_emulator(cloud: Any) -> None:
    created = await cloud.create(accelerator_type="v5litepod-16")
    addresses = [endpoint.ip_address for endpoint in created.network_endpoints]
    for address in addresses:
        socket.create_server((address, 0)).close()

    cloud.emulator.restart()

    assert [endpoint.ip_address for endpoint in (await cloud.get()).network_endpoints] == addresses
