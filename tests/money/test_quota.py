"""What counts against which quota: as the emulator's engine counts, for every accelerator type."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.limits import quota_engine, quota_ids
from jupyter_tpu.emulator.services.quota import limits as emulated_limits
from jupyter_tpu.emulator.store.holdings import Held as EmulatedHeld
from jupyter_tpu.emulator.store.holdings import Kind, like
from jupyter_tpu.money import quota
from jupyter_tpu.money.quota import QuotaHolder, QuotaLimits
from jupyter_tpu.money.quota_ids import all_quotas, quotas_by_id

ZONES = ("us-central1-a", "us-central1-b", "europe-west4-b", "us-east1-d")
TYPES = tuple(accelerators.accelerators())
TIERS = ("", "spot", "preemptible", "reserved")


def held(accelerator_type: str, zone: str = ZONES[0], tier: str = "", **changes: object) -> QuotaHolder:
    fields = {
        "name": f"projects/demo/locations/{zone}/nodes/{accelerator_type}",
        "kind": "node",
        "state": "READY",
        "zone": zone,
        "accelerator_type": accelerator_type,
        "is_preemptible": tier in ("spot", "preemptible"),
        "is_reserved": tier == "reserved",
    }
    return QuotaHolder(**{**fields, **changes})  # type: ignore[arg-type]


holdings = st.lists(st.tuples(st.sampled_from(TYPES), st.sampled_from(ZONES), st.sampled_from(TIERS)), max_size=30)


@given(holdings)
def test_the_sums_are_those_of_the_emulators_engine(rows: list[tuple[str, str, str]]) -> None:
    ours = {
        (use.quota.quota_id, use.place): use.used
        for use in quota.uses(None, [held(kind, zone, tier) for kind, zone, tier in rows])
    }
    theirs = quota_engine.usage(EmulatedHeld(like(Kind(kind, tier, 1)), zone, 1) for kind, zone, tier in rows)

    assert ours == {(str(each), place): used for (each, place), used in theirs.items()}


@pytest.mark.parametrize("tier", TIERS)
def test_every_type_counts_as_in_the_emulators_engine(tier: str) -> None:
    for accelerator_type in TYPES:
        ours = quota.uses(None, [held(accelerator_type, tier=tier)])
        theirs = quota_engine.usage([EmulatedHeld(like(Kind(accelerator_type, tier, 0)), ZONES[0], 1)])

        assert Counter({(use.quota.quota_id, use.place): use.used for use in ours}) == Counter(
            {(str(each), place): used for (each, place), used in theirs.items()}
        ), accelerator_type


def test_ids_units_and_metrics_are_those_of_the_emulators_services() -> None:
    theirs = {str(each): each for each in quota_ids.all_quota_ids()}

    assert set(quotas_by_id()) == set(theirs)
    for each in all_quotas():
        emulated = theirs[each.quota_id]
        assert each.metric == emulated_limits.metric_of(emulated)
        assert (each.unit == "chips") == emulated.counts_chips
        assert each.label


def limits(**values: int) -> QuotaLimits:
    """Of small v5e nodes on demand, in the first zone and its region."""
    by_scope = {"zone": ZONES[0], "region": accelerators.region_of(ZONES[0])}
    ids = {scope: f"TPUV5sLitepodServingPerProjectPer{scope.capitalize()}ForTPUAPI" for scope in by_scope}
    found = {(quotas_by_id()[ids[scope]], by_scope[scope]): value for scope, value in values.items()}
    return QuotaLimits(values=found, source="test", as_of=0.0)


@pytest.mark.parametrize(
    ("zone", "region", "is_complete", "fits"),
    [
        (16, 16, True, [True, True]),
        (15, 16, True, [False, True]),
        (-1, 16, True, [True, True]),
        (0, -1, True, [False, True]),
        (16, 15, False, [None, False]),
        (-1, -1, False, [True, True]),
    ],
)
def test_a_request_fits_when_zone_and_region_have_room(
    zone: int, region: int, is_complete: bool, fits: list[bool | None]
) -> None:
    rows = quota.quota_after(
        held("v5litepod-8"), limits(zone=zone, region=region), [held("v5litepod-8")], is_complete=is_complete
    )

    assert [row.use.quota.scope for row in rows] == ["zone", "region"]
    assert [row.requested for row in rows] == [8, 8]
    assert [row.use.used for row in rows] == [8, 8]
    assert [row.fits for row in rows] == fits


def test_what_a_limit_nobody_knows_leaves_is_not_known() -> None:
    rows = quota.quota_after(held("v4-8"), limits(zone=8), [], is_complete=True)

    assert [(row.requested, row.use.limit, row.left, row.fits) for row in rows] == [(8, None, None, None)] * 2


def test_a_limit_lowered_below_the_use_leaves_less_than_nothing() -> None:
    (by_zone, _) = quota.uses(limits(zone=4), [held("v5litepod-8")])[:2]

    assert {use.free for use in quota.uses(limits(zone=4), [held("v5litepod-8")])} == {-4, None}
    assert by_zone.used == 8


@pytest.mark.parametrize(("state", "is_leftover"), [("PREEMPTED", True), ("TERMINATED", True), ("STOPPED", False)])
def test_a_node_without_work_counts_and_only_one_that_cannot_start_is_a_leftover(state: str, is_leftover: bool) -> None:
    (use, _) = quota.uses(None, [held("v6e-4", state=state)])

    assert use.used == 4
    assert use.users[0].holder.is_leftover is is_leftover


@pytest.mark.parametrize(("state", "is_leftover"), [("FAILED", True), ("SUSPENDED", True), ("ACCEPTED", False)])
def test_leftovers_among_queued_resources(state: str, is_leftover: bool) -> None:
    assert held("v6e-4", kind="queued_resource", state=state).is_leftover is is_leftover


def test_a_type_that_is_not_known_is_not_taken_for_free() -> None:
    assert not held("v9x-8").is_counted
    assert quota.uses(None, [held("v9x-8")]) == ()


def test_what_is_used_comes_first_and_what_can_never_be_used_is_not_worth_showing() -> None:
    nowhere = quotas_by_id()["TPUV2sPerProjectPerZoneForTPUAPI"]
    closed = quotas_by_id()["TPUV6EPerProjectPerZoneForTPUAPI"]
    allowed = quotas_by_id()["TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"]
    values = {
        (nowhere, "us-east5-c"): 16,
        (closed, "us-east1-d"): 0,
        (allowed, "us-central1-a"): 4,
        (allowed, "us-west4-a"): -1,
    }
    found = quota.uses(QuotaLimits(values=values, source="test", as_of=0.0), [held("v6e-4", "us-east5-b")])

    assert [use.used for use in found] == [4, 4, 0, 0, 0, 0]
    shown = [(use.quota, use.place) for use in found if not use.users and quota.is_worth_showing(use)]
    assert shown == [(allowed, "us-central1-a")]
