"""Validate parts of a new node: its networks, its scheduling and its disks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from jupyter_tpu.accelerators import Accelerator, region_of
from jupyter_tpu.emulator.resources.behaviours import assumed, documented
from jupyter_tpu.emulator.resources.errors import bad_field
from jupyter_tpu.emulator.resources.protos import NodePb, message_class

_READ_ONLY = message_class("AttachedDisk").DiskMode.Value("READ_ONLY")
_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
# Compute Engine identifies a resource by its path or by either of two URL forms
_URL = r"(?:https://(?:www|compute)\.googleapis\.com/compute/(?:v1|beta)/)?"
_NETWORK = re.compile(rf"{_NAME}|{_URL}projects/[^/]+/global/networks/{_NAME}")
_SUBNETWORK = re.compile(rf"{_NAME}|{_URL}(?:projects/[^/]+/)?regions/[^/]+/subnetworks/{_NAME}")
_DISK = re.compile(rf"{_URL}projects/[^/]+/(zones|regions?)/([^/]+)/disks/({_NAME})")


def check_networking(node: NodePb) -> None:
    """Check all network fields of a node."""
    check_network_once(node)
    check_cidr(node.cidr_block)
    for config in (node.network_config, *node.network_configs):
        check_network_names(config.network, config.subnetwork)
        if config.queue_count < 0:
            raise bad_field("node.network_config.queue_count", "queue_count must not be negative")


@documented(
    "network-config-once",
    "A node has either network_config or network_configs, not both.",
    source="google-cloud-tpu, Node.network_config",
)
def check_network_once(node: NodePb) -> None:
    """Raise an error if both network fields are set."""
    if node.HasField("network_config") and node.network_configs:
        raise bad_field("node.network_configs", "network_config and network_configs cannot both be set")


@documented("cidr-29", "A cidr_block is a /29 block.", source="google-cloud-tpu, Node.cidr_block")
def check_cidr(block: str) -> None:
    """Raise an error if the CIDR block is not a valid /29."""
    if not block:
        return
    try:
        is_right = ipaddress.IPv4Network(block).prefixlen == 29
    except ValueError:
        is_right = False
    if not is_right:
        raise bad_field("node.cidr_block", f"cidr_block {block[:40]!r} must be a /29 block")


@documented(
    "cidr-in-use",
    "A cidr_block must not overlap the block of another node in the project.",
    source="google-cloud-tpu, Node.cidr_block",
)
def check_cidr_free(block: str, used: Iterable[str]) -> None:
    """Raise an error if the CIDR block overlaps a block that is in use.

    `used` contains the block of each existing node, or an empty string for a node without a block.
    """
    wanted = ipaddress.IPv4Network(block)
    if any(other and wanted.overlaps(ipaddress.IPv4Network(other)) for other in used):
        raise bad_field("node.cidr_block", f"cidr_block {block} is used by another node")


@assumed(
    "network-names",
    "A network or subnetwork is given by its id, path or URL. The emulator does not check whether it exists.",
)
def check_network_names(network: str, subnetwork: str) -> None:
    """Raise an error if the name of the network or subnetwork has an unknown form."""
    if network and not _NETWORK.fullmatch(network):
        raise bad_field("node.network_config.network", f"network {network[:80]!r} is not valid")
    if subnetwork and not _SUBNETWORK.fullmatch(subnetwork):
        raise bad_field("node.network_config.subnetwork", f"subnetwork {subnetwork[:80]!r} is not valid")


@assumed("one-tier", "A node can be only one of spot, preemptible and reserved.")
def check_scheduling(node: NodePb) -> None:
    """Raise an error if more than one provisioning tier (such as spot or reserved) is set."""
    config = node.scheduling_config
    if sum((config.spot, config.preemptible, config.reserved)) > 1:
        raise bad_field("node.scheduling_config", "at most one of spot, preemptible and reserved can be set")


@documented(
    "disk-paths",
    "A data disk is named by its full path, in the node's zone or region.",
    source="google-cloud-tpu, AttachedDisk.source_disk; gcloud reference, tpu-vm attach-disk",
)
@documented(
    "disk-modes",
    "A writable disk can be attached to only one VM, so a node with several VMs gets read-only disks.",
    source="cloud.google.com/tpu/docs/setup-persistent-disk, access modes",
)
def check_disks(node: NodePb, kind: Accelerator, zone: str) -> None:
    """Raise an error for a disk in another zone, a disk that several VMs would write to, or a repeated disk."""
    for disk in node.data_disks:
        match = _DISK.fullmatch(disk.source_disk)
        if not match or match[2] not in (zone, region_of(zone)):
            raise bad_field("node.data_disks", f"{disk.source_disk[:120]!r} is not a disk of {zone}")
        if kind.workers > 1 and disk.mode != _READ_ONLY:
            raise bad_field("node.data_disks", f"a node with {kind.workers} VMs can only have READ_ONLY disks")
    paths = [disk.source_disk for disk in node.data_disks]
    if len(set(paths)) < len(paths):
        raise bad_field("node.data_disks", "a disk is attached once")
