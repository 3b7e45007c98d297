"""Check that the cloud offers the requested kind of node before the request is sent; errors list what it offers."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable

from jupyter_tpu.accelerators import accelerators, refuse_unserved, zones_for_type
from jupyter_tpu.cloud.api import CloudApi
from jupyter_tpu.errors import BadInput, PermissionDenied, Text
from jupyter_tpu.lifecycle.intent_texts import NOTHING_CREATED
from jupyter_tpu.models import NodeSpec


async def check_offered(cloud: CloudApi, spec: NodeSpec) -> None:
    """Check zone, accelerator type and runtime version against the cloud's lists for this project.

    Raises:
        BadInput: the zone, accelerator type or runtime version is not offered; nothing was created.
        CloudUnavailable, CloudRefused: the cloud did not return its lists.
    """
    zone = spec.name.zone
    try:
        zones = await cloud.list_zones()
        if zone not in zones:
            raise _no_such_zone(spec, zones)
        types, versions = await asyncio.gather(cloud.list_accelerator_types(zone), cloud.list_runtime_versions(zone))
    except PermissionDenied:  # a user who may not list types may still be allowed to create nodes
        return
    if spec.accelerator_type not in types:
        raise _no_such_type(spec, types)
    if spec.runtime_version not in versions:
        raise _no_such_version(spec, versions)


def _no_such_zone(spec: NodeSpec, zones: Iterable[str]) -> BadInput:
    offering = zones_for_type(spec.accelerator_type) if spec.accelerator_type in accelerators() else ()
    choice = [zone for zone in offering if zone in zones]
    shown = _some(spec.name.zone, choice or zones)
    return BadInput(
        Text("{zone} is not a Cloud TPU zone.", zone=spec.name.zone),
        exists=NOTHING_CREATED,
        hint=Text("Zones that offer {accelerator_type}: {zones}.", accelerator_type=spec.accelerator_type, zones=shown)
        if choice
        else Text("Available zones: {zones}.", zones=shown),
    )


def _no_such_type(spec: NodeSpec, types: Iterable[str]) -> BadInput:
    refuse_unserved(spec.accelerator_type)
    offering = zones_for_type(spec.accelerator_type) if spec.accelerator_type in accelerators() else ()
    here = _some(spec.accelerator_type, types)
    return BadInput(
        Text(
            "The accelerator type {type} is not offered in {zone}.",
            type=repr(spec.accelerator_type[:70]),
            zone=spec.name.zone,
        ),
        exists=NOTHING_CREATED,
        hint=Text(
            "Zones that offer {accelerator_type}: {zones}. Types offered there: {types}.",
            accelerator_type=spec.accelerator_type,
            zones=", ".join(offering),
            types=here,
        )
        if offering
        else Text("Types offered there: {types}.", types=here),
    )


def _no_such_version(spec: NodeSpec, versions: Iterable[str]) -> BadInput:
    return BadInput(
        Text(
            "The runtime version {runtime_version} is not offered in {zone}.",
            runtime_version=repr(spec.runtime_version[:70]),
            zone=spec.name.zone,
        ),
        exists=NOTHING_CREATED,
        hint=Text("Runtime versions offered there: {versions}.", versions=_some(spec.runtime_version, versions)),
    )


def _some(wrong: str, offered: Iterable[str], most: int = 12) -> str:
    """Return up to `most` of the offered names, sorted by similarity to the wrong name."""
    names = list(offered)
    # a cutoff of 0.3 also accepts names that are not very similar, because a hint without any names would be useless
    near = difflib.get_close_matches(wrong, names, n=most, cutoff=0.3)
    chosen = (near + [name for name in names if name not in near])[:most]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(chosen) + more
