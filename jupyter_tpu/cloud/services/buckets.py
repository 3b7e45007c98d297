"""Read the locations of Cloud Storage buckets, which determine the cost of reading them from a zone."""

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
    from jupyter_tpu.cloud.services.rest import RestClient

_EMULATED = "the emulated cloud has no Cloud Storage."


async def read_egress(
    settings: CloudSettings, buckets: Iterable[str], zone: str, *, epoch_gib: float | None = None
) -> tuple[Egress, ...]:
    """Return the cost of reading each bucket from a zone, or the reason why a cost is unknown. Never raises.

    Args:
        epoch_gib: GiB read from each bucket in one pass over the data; None if unknown.
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
    # Importing Google's client is slow and must not block the event loop; this function runs in a thread.
    rest = importlib.import_module("jupyter_tpu.cloud.services.rest")
    service = rest.Service(
        title="Cloud Storage API", host="storage.googleapis.com", role="roles/storage.legacyBucketReader"
    )
    try:
        client: RestClient = rest.RestClient.open(settings, service, environment)
    except TpuError as error:
        return tuple(egress(bucket, "", zone, why_unknown=error.message) for bucket in buckets)
    with closing(client):
        return tuple(egress_of(client, bucket, zone, epoch_gib=epoch_gib) for bucket in buckets)


def egress_of(client: RestClient, bucket: str, zone: str, *, epoch_gib: float | None = None) -> Egress:
    """Return the egress costs of reading one bucket from a zone."""
    try:
        answer = client.read(f"/storage/v1/b/{bucket}", {"fields": "location"})
    except TpuError as error:
        return egress(bucket, "", zone, why_unknown=error.message)
    return egress(bucket, str(answer.get("location", "")), zone, epoch_gib=epoch_gib)
