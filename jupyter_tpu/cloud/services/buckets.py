"""Where buckets of Cloud Storage lie."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.errors import TpuError
from jupyter_tpu.money.egress import Egress, egress

if TYPE_CHECKING:
    from jupyter_tpu.cloud.services.rest import RestDoor

_EMULATED = "the emulated cloud has no Cloud Storage."


async def read_egress(
    settings: CloudSettings, buckets: Iterable[str], zone: str, *, epoch_gib: float | None = None
) -> tuple[Egress, ...]:
    """What reading each bucket from a zone would mean; one whose location cannot be read says why. Never raises.

    `epoch_gib` is how much is read of each of them, each time, in GiB.
    """
    if settings.is_emulated:
        return tuple(egress(bucket, "", zone, why_unknown=_EMULATED) for bucket in buckets)
    return await asyncio.to_thread(_read, settings, tuple(buckets), zone, epoch_gib, os.environ)


def _read(
    settings: CloudSettings,
    buckets: tuple[str, ...],
    zone: str,
    epoch_gib: float | None,
    environment: Mapping[str, str],
) -> tuple[Egress, ...]:
    if not buckets:
        return ()
    # Google's client takes a while to import, which must not happen in the event loop
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    service = rest.Service(
        title="Cloud Storage API", host="storage.googleapis.com", role="roles/storage.legacyBucketReader"
    )
    try:
        door: RestDoor = rest.RestDoor.open(settings, service, environment)
    except TpuError as error:
        return tuple(egress(bucket, "", zone, why_unknown=error.message) for bucket in buckets)
    with closing(door):
        return tuple(egress_of(door, bucket, zone, epoch_gib=epoch_gib) for bucket in buckets)


def egress_of(door: RestDoor, bucket: str, zone: str, *, epoch_gib: float | None = None) -> Egress:
    """Ask for one bucket."""
    try:
        answer = door.read(f"/storage/v1/b/{bucket}", {"fields": "location"})
    except TpuError as error:
        return egress(bucket, "", zone, why_unknown=error.message)
    return egress(bucket, str(answer.get("location", "")), zone, epoch_gib=epoch_gib)
