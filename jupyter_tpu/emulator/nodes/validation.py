"""Validate the body of a new node before anything is created."""

from __future__ import annotations

import re

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.nodes.validation_parts import check_disks, check_networking, check_scheduling
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.errors import bad_field, type_not_in_zone
from jupyter_tpu.emulator.resources.protos import AcceleratorConfigType, NodePb

_NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_METADATA_KEY = re.compile(r"[-_a-zA-Z0-9]{1,128}")
# pattern of TensorFlow images: there are too many to list each of them in the catalogue
_TF_IMAGE = re.compile(r"tpu-vm-tf-2\.[0-9]+\.[0-9]+(-pod)?(-pjrt)?")
# the base image of v4 and older; the emulator lists it in every zone
_EVERYWHERE = ("tpu-ubuntu2204-base",)


@assumed("node-id-rule", "A node id has 1 to 63 lower-case letters, digits and hyphens and starts with a letter.")
def check_node_id(node_id: str) -> None:
    """Raise an error if the node id is invalid."""
    if not _NODE_ID.fullmatch(node_id):
        raise bad_field(
            "node_id", f"node_id {node_id[:80]!r} must match [a-z]([-a-z0-9]*[a-z0-9])? and have at most 63"
        )


@documented(
    "description-length", "A description has at most 512 characters.", source="google-cloud-tpu, Node.description"
)
def check_texts(node: NodePb) -> None:
    """Check the labels, tags, metadata and description of a node that is created or updated."""
    check_labels(node)
    check_tags(node)
    check_metadata(node)
    if len(node.description) > 512:
        raise bad_field("node.description", "description must have at most 512 characters")


@documented(
    "label-rule",
    "A resource has at most 64 labels. Keys have 1 to 63 characters and start with a letter; values have at "
    "most 63. Both consist of lower-case letters, digits, hyphens and underscores.",
    source="cloud.google.com/compute/docs/labeling-resources (Google Cloud's general rule)",
)
def check_labels(node: NodePb) -> None:
    """Raise an error if there are too many labels, or if a key or value is invalid."""
    for key, value in node.labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            raise bad_field("node.labels", f"label {key[:80]!r}: {value[:80]!r} is not valid")
    if len(node.labels) > 64:
        raise bad_field("node.labels", "a node has at most 64 labels")


@documented(
    "tag-rule",
    "A VM has at most 64 network tags, each of 1 to 63 lower-case letters, digits and hyphens, starting with a letter.",
    source="cloud.google.com/vpc/docs/add-remove-network-tags",
)
def check_tags(node: NodePb) -> None:
    """Raise an error if there are too many network tags, or if a tag is invalid."""
    for tag in node.tags:
        if not _NODE_ID.fullmatch(tag):
            raise bad_field("node.tags", f"tag {tag[:80]!r} is not valid")
    if len(node.tags) > 64:
        raise bad_field("node.tags", "a node has at most 64 tags")


@documented(
    "metadata-rule",
    "Metadata keys have at most 128 letters, digits, hyphens and underscores. A value has at most 256 KiB, and "
    "all values together have at most 512 KiB.",
    source="cloud.google.com/compute/docs/metadata/setting-custom-metadata",
)
def check_metadata(node: NodePb) -> None:
    """Raise an error if a key is malformed or the metadata is too large."""
    for key, value in node.metadata.items():
        if not _METADATA_KEY.fullmatch(key):
            raise bad_field("node.metadata", f"metadata key {key[:80]!r} is not valid")
        if len(value.encode()) > 256 * 1024:
            raise bad_field("node.metadata", f"the value of metadata {key!r} has more than 256 KiB")
    if sum(len(key.encode()) + len(value.encode()) for key, value in node.metadata.items()) > 512 * 1024:
        raise bad_field("node.metadata", "metadata has more than 512 KiB")


def check_new_node(node: NodePb, zone: str) -> accelerators.Accelerator:
    """Check the whole body of a node to create, directly or through a queued resource; return its accelerator type."""
    check_texts(node)
    kind = accelerator_of(node, zone)
    check_runtime_version(node.runtime_version, zone)
    check_networking(node)
    check_scheduling(node)
    check_disks(node, kind, zone)
    return kind


@assumed(
    "type-or-config",
    "Either accelerator_type or accelerator_config is required; the emulator fills in the other. If both are "
    "given, they must agree.",
)
def accelerator_of(node: NodePb, zone: str) -> accelerators.Accelerator:
    """Return the type that a new node requests, by name or by configuration."""
    name = node.accelerator_type or _type_of_config(node, zone)
    if name not in accelerators.types_in_zone(zone):
        raise type_not_in_zone(name, zone)
    if node.accelerator_type and node.HasField("accelerator_config") and _type_of_config(node, zone) != name:
        raise bad_field("node.accelerator_config", f"accelerator_config is not that of accelerator_type {name}")
    return accelerators.accelerator(name)


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
    """Return the ``AcceleratorConfig.Type`` of a type, such as V5LITE_POD."""
    return int(AcceleratorConfigType[accelerators.generation_facts(kind.generation).api_type].value)


@recorded(
    "runtime-versions",
    "A zone lists the runtime versions that fit its generations, from Google's pages and samples and from "
    "public scripts.",
    source="cloud.google.com/tpu/docs/runtimes; python-docs-samples, tpu/; the catalogue names the source of each",
)
def runtime_versions_in(zone: str) -> tuple[str, ...]:
    """Return the names of the runtime versions that a zone lists for the TPU generations that it offers."""
    kinds = {accelerators.accelerator(name).generation for name in accelerators.types_in_zone(zone)}
    names = {version for kind in kinds for version in accelerators.runtime_versions(kind)}
    return tuple(sorted(names | set(_EVERYWHERE)))


@assumed(
    "runtime-version-unknown",
    "A runtime version that the zone does not list is refused with 400, even if it matches the generation.",
)
def check_runtime_version(version: str, zone: str) -> None:
    """Raise an error if the zone does not list the runtime version."""
    if not version:
        raise bad_field("node.runtime_version", "runtime_version must be set")
    if version not in runtime_versions_in(zone) and not _TF_IMAGE.fullmatch(version):
        raise bad_field("node.runtime_version", f'The runtime version "{version[:80]}" was not found in zone {zone}')
