"""The nodes of a project, counted by kind, for checks of quotas, capacity and IP addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jupyter_tpu.emulator.resources.protos import NodePb, new


@dataclass(frozen=True, slots=True)
class Held:
    """Identical nodes in one zone that exist or that a queued resource requests; `count` is their number.

    `node` has only the fields that affect the limits: accelerator type, scheduling and external addresses.
    """

    node: NodePb
    zone: str
    count: int


class Kind(NamedTuple):
    """The properties by which nodes are grouped.

    `tier` is the requested tier of a node: empty, ``spot``, ``preemptible``, ``reserved`` or ``flex`` (FLEX_START, for
    which v2's ``Node`` has no field). `addresses` counts the external addresses of each worker.
    """

    accelerator_type: str
    tier: str
    addresses: int


def kind_of(node: NodePb, *, is_flex: bool = False) -> Kind:
    """Return the kind of a node."""
    return Kind(node.accelerator_type, "flex" if is_flex else _tier_of(node), _addresses_of(node))


def _tier_of(node: NodePb) -> str:
    config = node.scheduling_config
    return next((tier for tier in ("spot", "preemptible", "reserved") if getattr(config, tier)), "")


def _addresses_of(node: NodePb) -> int:
    return sum(bool(config.enable_external_ips) for config in (node.network_config, *node.network_configs))


def like(kind: Kind) -> NodePb:
    """Return a node that has only the fields of this kind."""
    node = new("Node", accelerator_type=kind.accelerator_type)
    if kind.tier:
        # flex-start uses preemptible quota, like spot (behaviour `flex-start-quota`)
        setattr(node.scheduling_config, "spot" if kind.tier == "flex" else kind.tier, True)
    # a node with one network uses a different field from a node with several networks
    if kind.addresses == 1:
        node.network_config.enable_external_ips = True
    elif kind.addresses:
        node.network_configs.extend(new("NetworkConfig", enable_external_ips=True) for _ in range(kind.addresses))
    return node
