"""What a create request must obey before anything is made."""

from __future__ import annotations

import re

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.behaviours import assumed
from jupyter_tpu.emulator.errors import bad_field, type_not_in_zone
from jupyter_tpu.emulator.protos import AcceleratorConfigType, NodePb

_NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_TF_IMAGE = re.compile(r"tpu-vm-tf-2\.[0-9]+\.[0-9]+(-pod)?(-pjrt)?")
_EVERYWHERE = ("tpu-ubuntu2204-base",)


@assumed("node-id-rule", "A node id has 1 to 63 lower-case letters, digits and hyphens and starts with a letter.")
def check_node_id(node_id: str) -> None:
    if not _NODE_ID.fullmatch(node_id):
        raise bad_field(
            "node_id", f"node_id {node_id[:80]!r} must match [a-z]([-a-z0-9]*[a-z0-9])? and have at most 63"
        )


@assumed("label-rule", "Label keys and values follow Google Cloud's general rule, and a description has at most 512.")
def check_texts(node: NodePb) -> None:
    for key, value in node.labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            raise bad_field("node.labels", f"label {key[:80]!r}: {value[:80]!r} is not valid")
    if len(node.description) > 512:
        raise bad_field("node.description", "description must have at most 512 characters")


@assumed("network-config-once", "A node has network_config or network_configs, not both.")
def check_networks(node: NodePb) -> None:
    if node.HasField("network_config") and node.network_configs:
        raise bad_field("node.network_configs", "network_config and network_configs cannot both be set")


def accelerator_of(node: NodePb, zone: str) -> accelerators.Accelerator:
    """The type that a new node asks for, by name or by configuration."""
    name = node.accelerator_type or _type_of_config(node, zone)
    if name not in accelerators.types_in_zone(zone):
        raise type_not_in_zone(name, zone)
    return accelerators.accelerator(name)


@assumed("type-or-config", "accelerator_type or accelerator_config must be given; the other is filled in.")
def _type_of_config(node: NodePb, zone: str) -> str:
    if not node.HasField("accelerator_config"):
        raise bad_field("node.accelerator_type", "accelerator_type or accelerator_config must be set")
    config = node.accelerator_config
    for name in accelerators.types_in_zone(zone):
        kind = accelerators.accelerator(name)
        if config_type_of(kind) == config.type_ and kind.topology == config.topology:
            return name
    raise type_not_in_zone(f"{_config_name(config.type_)}:{config.topology}", zone)


def _config_name(number: int) -> str:
    return next((each.name for each in AcceleratorConfigType if each.value == number), str(number))


def config_type_of(kind: accelerators.Accelerator) -> int:
    """``AcceleratorConfig.Type`` of a type, such as V5LITE_POD."""
    word = accelerators.catalogue()["generations"][kind.generation]["api_type"]
    return int(AcceleratorConfigType[word].value)


def runtime_versions_in(zone: str) -> tuple[str, ...]:
    """Names that a zone lists: those of the generations it offers."""
    kinds = {accelerators.accelerator(name).generation for name in accelerators.types_in_zone(zone)}
    names = {version for kind in kinds for version in accelerators.runtime_versions(kind)}
    return tuple(sorted(names | set(_EVERYWHERE)))


@assumed(
    "runtime-version-unknown",
    "A runtime version that the zone does not list is refused with 400, whether or not it fits the generation.",
)
def check_runtime_version(version: str, zone: str) -> None:
    if not version:
        raise bad_field("node.runtime_version", "runtime_version must be set")
    if version not in runtime_versions_in(zone) and not _TF_IMAGE.fullmatch(version):
        raise bad_field("node.runtime_version", f'The runtime version "{version[:80]}" was not found in zone {zone}')
