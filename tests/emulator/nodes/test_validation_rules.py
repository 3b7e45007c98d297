"""What a new node or queued resource must obey: tables over the rules, each with one thing wrong."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format

from jupyter_tpu.emulator.nodes.validation import check_new_node
from jupyter_tpu.emulator.nodes.validation_parts import check_cidr_free
from jupyter_tpu.emulator.queued_resources.validation import (
    check_node_ids,
    check_queued_resource,
    check_queued_resource_id,
)
from jupyter_tpu.emulator.resources.errors import Refusal
from jupyter_tpu.emulator.resources.names import Location
from jupyter_tpu.emulator.resources.protos import message_class

ZONE = "us-central1-a"
HERE = Location("p1", ZONE)
NODE = {"acceleratorType": "v5litepod-8", "runtimeVersion": "v2-alpha-tpuv5-lite"}
DISK = f"projects/p1/zones/{ZONE}/disks/d1"
NOW = 1_800_000_000.0


def node(**fields: Any) -> Any:
    return json_format.ParseDict({**NODE, **fields}, message_class("Node")())


def queued(*specs: dict[str, Any], **policy: Any) -> Any:
    body = {"tpu": {"nodeSpec": list(specs)}, "queueingPolicy": policy}
    return json_format.ParseDict(body, message_class("QueuedResource")())


def spec(**fields: Any) -> dict[str, Any]:
    return {"parent": str(HERE), "node": NODE, **({"nodeId": "n1"} if not fields else {}), **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"acceleratorConfig": {"type": "V5LITE_POD", "topology": "2x4"}},
        {"acceleratorType": "", "acceleratorConfig": {"type": "V5LITE_POD", "topology": "2x4"}},
        {"cidrBlock": "10.1.2.8/29"},
        {"networkConfig": {"network": "default", "subnetwork": "regions/us-central1/subnetworks/s-1"}},
        {"networkConfig": {"network": "https://www.googleapis.com/compute/v1/projects/p1/global/networks/n-1"}},
        {"networkConfigs": [{"network": "a"}, {"network": "projects/p/global/networks/b", "enableExternalIps": True}]},
        {"dataDisks": [{"sourceDisk": DISK, "mode": "READ_WRITE"}]},
        {"dataDisks": [{"sourceDisk": "projects/p1/region/us-central1/disks/d1"}]},
        {"acceleratorType": "v5litepod-16", "dataDisks": [{"sourceDisk": DISK, "mode": "READ_ONLY"}]},
        {"schedulingConfig": {"spot": True}},
        {"labels": {"owner": "", "a_b-9": "x_y-9"}, "tags": ["web", "a-1"], "metadata": {"ssh-keys": "me:ssh-rsa A"}},
        {"description": "x" * 512},
        {"runtimeVersion": "tpu-vm-tf-2.16.1-pod-pjrt"},
    ],
    ids=repr,
)
def test_a_node_that_obeys_is_let_in(fields: dict[str, Any]) -> None:
    assert check_new_node(node(**fields), ZONE).generation == "v5e"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"acceleratorType": ""}, "accelerator_type or accelerator_config must be set"),
        ({"acceleratorConfig": {"type": "V5LITE_POD", "topology": "4x4"}}, "is not that of accelerator_type"),
        ({"acceleratorType": "v4-8"}, "could not be found in the zonal accelerator configurations"),
        ({"runtimeVersion": ""}, "runtime_version must be set"),
        ({"runtimeVersion": "v2-alpha-tpuv9"}, 'The runtime version "v2-alpha-tpuv9" was not found in zone'),
        ({"cidrBlock": "10.1.2.0/28"}, "must be a /29 block"),
        ({"cidrBlock": "10.1.2.9/29"}, "must be a /29 block"),
        ({"cidrBlock": "fd00::/29"}, "must be a /29 block"),
        ({"cidrBlock": "reserved-range"}, "must be a /29 block"),
        ({"networkConfig": {}, "networkConfigs": [{}]}, "cannot both be set"),
        ({"networkConfig": {"network": "My Network"}}, "network 'My Network' is not valid"),
        ({"networkConfigs": [{"subnetwork": "a/b"}]}, "subnetwork 'a/b' is not valid"),
        ({"networkConfig": {"queueCount": -1}}, "queue_count must not be negative"),
        ({"schedulingConfig": {"spot": True, "preemptible": True}}, "at most one of spot, preemptible and reserved"),
        ({"schedulingConfig": {"spot": True, "reserved": True}}, "at most one of spot, preemptible and reserved"),
        ({"dataDisks": [{"sourceDisk": "d1"}]}, "'d1' is not a disk of us-central1-a"),
        ({"dataDisks": [{"sourceDisk": "projects/p1/zones/us-west4-a/disks/d1"}]}, "is not a disk of us-central1-a"),
        ({"dataDisks": [{"sourceDisk": DISK}, {"sourceDisk": DISK}]}, "a disk is attached once"),
        ({"acceleratorType": "v5litepod-16", "dataDisks": [{"sourceDisk": DISK}]}, "can only have READ_ONLY disks"),
        ({"labels": {"1st": "x"}}, "label '1st'"),
        ({"labels": {"owner": "Me"}}, "label 'owner': 'Me'"),
        ({"labels": {f"k{number}": "" for number in range(65)}}, "at most 64 labels"),
        ({"tags": ["Web"]}, "tag 'Web' is not valid"),
        ({"tags": [f"t{number}" for number in range(65)]}, "at most 64 tags"),
        ({"metadata": {"a b": ""}}, "metadata key 'a b' is not valid"),
        ({"metadata": {"a": "x" * (256 * 1024 + 1)}}, "more than 256 KiB"),
        ({"metadata": dict.fromkeys(("a", "b", "c"), "x" * 200_000)}, "more than 512 KiB"),
        ({"description": "x" * 513}, "at most 512 characters"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_node_with_one_thing_wrong_is_refused_for_it(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_new_node(node(**fields), ZONE)

    assert caught.value.status.code == 3
    assert words in caught.value.status.message


@pytest.mark.parametrize(
    "body",
    [
        queued(spec()),
        queued(spec(), validUntilDuration="7200s"),
        queued(spec(parent="", nodeId="n1"), validAfterDuration="60s"),
        queued(spec(multisliceParams={"nodeCount": 2, "nodeIdPrefix": "sl"})),
        queued(spec(), spec(nodeId="n2"), validUntilTime="2027-06-01T00:00:00Z"),
        queued(spec(), validInterval={"startTime": "2027-06-01T00:00:00Z", "endTime": "2027-06-02T00:00:00Z"}),
    ],
    ids=str,
)
def test_a_queued_resource_that_obeys_is_let_in(body: Any) -> None:
    check_queued_resource(body, HERE, NOW)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (queued(), "at least one node_spec must be set"),
        (queued(spec(parent="projects/p1/locations/us-west4-a", nodeId="n1")), "must be projects/p1/locations/us-cent"),
        (queued({"parent": str(HERE), "node": NODE}), "node_id or multislice_params must be set"),
        (queued(spec(multisliceParams={"nodeCount": 1})), "node_count must be 2 to 256"),
        (queued(spec(multisliceParams={"nodeCount": 10**6})), "node_count must be 2 to 256"),
        (queued(spec(node={}, nodeId="n1")), "accelerator_type or accelerator_config must be set"),
        (queued(spec(), validUntilDuration="0s"), "valid_until_duration must be positive"),
        (queued(spec(), validAfterDuration="-5s"), "valid_after_duration must be positive"),
        (queued(spec(), validUntilTime="2020-01-01T00:00:00Z"), "valid_until_time must be in the future"),
        (
            queued(spec(), validInterval={"startTime": "2027-06-02T00:00:00Z", "endTime": "2027-06-01T00:00:00Z"}),
            "valid_interval must end after it starts",
        ),
        (queued(spec(), validInterval={"endTime": "2020-01-01T00:00:00Z"}), "and in the future"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_queued_resource_with_one_thing_wrong_is_refused_for_it(body: Any, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        check_queued_resource(body, HERE, NOW)

    assert caught.value.status.code == 3
    assert words in caught.value.status.message


@pytest.mark.parametrize("text", ["q", "Q_1.~+%-", "9", "x" * 63])
def test_an_id_of_a_queued_resource_may_have_more_signs_than_one_of_a_node(text: str) -> None:
    check_queued_resource_id(text)


@pytest.mark.parametrize("text", ["", "a/b", "a b", "é", "x" * 64, "a\n"])
def test_a_bad_id_of_a_queued_resource_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        check_queued_resource_id(text)


@pytest.mark.parametrize("ids", [["n1", "n1"], ["N1"], ["x" * 64], ["n1", ""]])
def test_nodes_of_a_queued_resource_need_ids_of_their_own(ids: list[str]) -> None:
    check_node_ids(["n1", "n2"])

    with pytest.raises(Refusal):
        check_node_ids(ids)


def test_a_block_of_addresses_is_had_by_one_node() -> None:
    check_cidr_free("10.1.2.8/29", ["", "10.1.2.0/29", "10.1.2.16/29"])

    with pytest.raises(Refusal, match="is used by another node"):
        check_cidr_free("10.1.2.8/29", ["10.1.2.0/29", "10.1.2.8/29"])
