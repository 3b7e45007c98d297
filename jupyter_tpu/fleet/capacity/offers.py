"""Capacity offers with local data: for each offer, the grants that cover it and the results of recent creations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jupyter_tpu.fleet.capacity.creation_history import (
    LOOK_BACK_S,
    NO_CREATIONS,
    CreationCounts,
    Place,
    creation_counts,
)
from jupyter_tpu.fleet.spend.grant_usage import GrantUsage, read_grant_usage
from jupyter_tpu.money.coverage import NodeRequest
from jupyter_tpu.provisioning import PROVISIONING_MODELS, is_grantable

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.fleet.reconciler.fleet import Fleet
    from jupyter_tpu.journal.journal import Journal

JSON = dict[str, Any]

_GRANTABLE = tuple(model for model in PROVISIONING_MODELS if is_grantable(model))


async def annotated_offers(
    offers: JSON, fleet: Fleet, journal: Journal, settings: CloudSettings, *, now: float
) -> JSON:
    """Return the offers with data from the grants and the journal. Always fast: makes no request to the cloud.

    Args:
        offers: the result of `offers_view`.
        now: Unix seconds.

    Raises:
        JournalUnwritable: the journal can't be read.
    """
    usage = await read_grant_usage(journal, settings, fleet.snapshot())
    place = {"endpoint": settings.endpoint, "project": settings.project}
    intents = await asyncio.to_thread(journal.creations, now - LOOK_BACK_S, **place)
    # use a thread, because there are many offers, each with several provisioning models
    return await asyncio.to_thread(annotated, offers, usage, creation_counts(intents))


def annotated(offers: JSON, usage: GrantUsage, counts: Mapping[Place, CreationCounts]) -> JSON:
    """Return the offers, each with the provisioning models that grants cover and the results of earlier requests."""
    zones = {
        zone: [_annotated(offer, zone, usage, counts.get((zone, offer["accelerator_type"]))) for offer in listed]
        for zone, listed in offers["zones"].items()
    }
    return {**offers, "zones": zones}


def _annotated(offer: JSON, zone: str, usage: GrantUsage, counts: CreationCounts | None) -> JSON:
    known = counts or NO_CREATIONS
    # without a grant, skip the computation for hundreds of offers
    models = _GRANTABLE if usage.written.grants else ()
    requests = (
        NodeRequest(accelerator_type=offer["accelerator_type"], zone=zone, provisioning=each) for each in models
    )
    return {
        **offer,
        "covered": [request.provisioning for request in requests if usage.coverage(request).is_covered],
        "created": known.created,
        "out_of_capacity": known.out_of_capacity,
        "last_created_at": known.last_created_at,
    }
