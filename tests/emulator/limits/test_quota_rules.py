"""Which quotas a node counts against, what their limits are, and what a refusal says: tables over pure rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.rpc import error_details_pb2
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.accelerators import accelerators, region_of
from jupyter_tpu.emulator.limits.project import Project
from jupyter_tpu.emulator.limits.quota_engine import QuotaEngine
from jupyter_tpu.emulator.limits.quota_ids import all_quota_ids, parse_quota_id, quota_ids_of, units_of
from jupyter_tpu.emulator.resources import errors
from jupyter_tpu.emulator.resources.protos import NodePb, new
from jupyter_tpu.emulator.store.database import Store
from jupyter_tpu.emulator.store.holdings import Held

ZONE = "us-central1-a"
SERVING = "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI"
NUMBER = "123456789012"


def node(accelerator_type: str, **scheduling: bool) -> NodePb:
    config = new("SchedulingConfig", **scheduling)
    return new("Node", accelerator_type=accelerator_type, scheduling_config=config)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "cloud.db")
    yield store
    store.close()


@pytest.fixture
def project(store: Store) -> Project:
    return Project(store)


@pytest.fixture
def engine(store: Store, project: Project) -> QuotaEngine:
    return QuotaEngine(store, project)


def refusal(engine: QuotaEngine, asked: list[tuple[NodePb, str]], held: list[Held] | None = None) -> errors.Refusal:
    with pytest.raises(errors.Refusal) as caught:
        engine.check(asked, held or [], NUMBER)
    return caught.value


def violations(refused: errors.Refusal) -> list[tuple[str, str]]:
    (detail,) = refused.status.details
    failure = error_details_pb2.QuotaFailure()
    assert detail.Unpack(failure)
    return [(each.subject, each.description) for each in failure.violations]


@pytest.mark.parametrize(
    ("accelerator_type", "scheduling", "stem", "units"),
    [
        ("v2-8", {}, "TPUV2s", 8),
        ("v2-8", {"preemptible": True}, "TPUV2sPreemptible", 8),
        ("v2-32", {}, "TPUV2sPod", 32),
        ("v2-32", {"spot": True}, "TPUV2sPreemptiblePod", 32),
        ("v3-8", {}, "TPUV3s", 8),
        ("v3-32", {"spot": True}, "TPUV3sPreemptiblePod", 32),
        ("v4-8", {"spot": True}, "TPUV4sPreemptiblePod", 8),
        ("v4-64", {}, "TPUV4sPod", 64),
        ("v5litepod-1", {}, "TPUV5sLitepodServing", 1),
        ("v5litepod-8", {}, "TPUV5sLitepodServing", 8),
        ("v5litepod-8", {"spot": True}, "TPUV5sPreemptibleLitepodServing", 8),
        ("v5litepod-16", {}, "TPUV5sLitepod", 16),
        ("v5litepod-16", {"spot": True}, "TPUV5sPreemptibleLitepod", 16),
        ("v5p-8", {}, "TPUV5P", 8),
        ("v5p-128", {"spot": True}, "TPUV5PPreemptible", 128),
        ("v6e-8", {}, "TPUV6E", 8),
        ("v6e-256", {"spot": True}, "TPUV6EPreemptible", 256),
    ],
)
def test_a_node_counts_by_region_and_by_zone_in_the_unit_of_its_generation(
    accelerator_type: str, scheduling: dict[str, bool], stem: str, units: int
) -> None:
    asked = node(accelerator_type, **scheduling)

    assert [str(each) for each in quota_ids_of(asked)] == [
        f"{stem}PerProjectPerRegionForTPUAPI",
        f"{stem}PerProjectPerZoneForTPUAPI",
    ]
    assert units_of(asked) == units


def test_a_folder_of_an_earlier_version_still_opens(store: Store) -> None:
    store.save_fact("project:switches", json.dumps({"quota_requests": "deny", "creates_per_minute": 7}))

    assert Project(store).switches.creates_per_minute == 7


def test_every_type_has_a_quota_and_every_quota_id_reads_back() -> None:
    known = set(all_quota_ids())

    assert {quota for name in accelerators() for quota in quota_ids_of(node(name))} <= known
    assert {parse_quota_id(str(each)) for each in known} == known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "TPUV5sLitepodServingPreemptiblePerProjectPerZoneForTPUAPI",
        "TPUV4sPerProjectPerZoneForTPUAPI",
        "TPUV6EPodPerProjectPerZoneForTPUAPI",
        "TPUV9PerProjectPerZoneForTPUAPI",
    ],
)
def test_what_breaks_the_grammar_is_no_quota_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a quota"):
        parse_quota_id(text)


def test_one_exceeded_limit_is_refused_word_for_word(engine: QuotaEngine) -> None:
    engine.set_limit(SERVING, "us-east5-a", 4)

    refused = refusal(engine, [(node("v5litepod-8"), "us-east5-a")])

    assert refused.status.code == 8
    assert refused.status.message == f"Quota limit '{SERVING}' has been exceeded. Limit: 4 in zone us-east5-a."
    assert violations(refused) == [(f"project:{NUMBER}", f"Quota '{SERVING}' exhausted. Limit 4 in zone us-east5-a")]


def test_a_limit_of_the_region_is_refused_in_its_own_words(engine: QuotaEngine) -> None:
    by_region = SERVING.replace("Zone", "Region")
    engine.set_limit(by_region, "us-east5", 0)

    refused = refusal(engine, [(node("v5litepod-4"), "us-east5-a")])

    assert refused.status.message == f"Quota limit '{by_region}' has been exceeded. Limit: 0 in region us-east5."


def test_several_exceeded_limits_are_one_refusal_word_for_word(engine: QuotaEngine, project: Project) -> None:
    project.change({"quota_profile": "new_project"})

    refused = refusal(engine, [(node("v2-32"), "us-central1-a")])

    assert refused.status.message == (
        "Quota limit 'TPUV2sPodPerProjectPerRegionForTPUAPI,TPUV2sPodPerProjectPerZoneForTPUAPI' has been exceeded. "
        "Limit: 0,0 in region us-central1,zone us-central1-a."
    )
    assert len(violations(refused)) == 2


def test_zones_share_the_limit_of_their_region(engine: QuotaEngine) -> None:
    engine.set_limit(SERVING.replace("Zone", "Region"), "us-west4", 8)
    held = [Held(node("v5litepod-4"), "us-west4-a", 1)]

    engine.check([(node("v5litepod-4"), "us-west4-b")], held, NUMBER)
    refusal(engine, [(node("v5litepod-8"), "us-west4-b")], held)
    engine.check([(node("v5litepod-8"), "us-west1-c")], held, NUMBER)


def test_nodes_that_are_asked_for_together_count_together(engine: QuotaEngine) -> None:
    engine.set_limit(SERVING, ZONE, 12)
    pair = [(node("v5litepod-8"), ZONE)] * 2

    engine.check(pair[:1], [], NUMBER)
    refusal(engine, pair)


@pytest.mark.parametrize(
    ("held", "fits"),
    [
        (Held(node("v5litepod-8"), ZONE, 1), False),
        (Held(node("v5litepod-4"), ZONE, 2), False),
        (Held(node("v5litepod-8", spot=True), ZONE, 9), True),
        (Held(node("v5litepod-16"), ZONE, 9), True),
        (Held(node("v5litepod-8", reserved=True), ZONE, 9), True),
        (Held(node("v5litepod-8"), "us-south1-a", 9), True),
    ],
)
def test_only_what_is_alike_and_near_uses_up_a_limit(engine: QuotaEngine, held: Held, fits: bool) -> None:
    engine.set_limit(SERVING, ZONE, 8)

    if fits:
        engine.check([(node("v5litepod-8"), ZONE)], [held], NUMBER)
    else:
        refusal(engine, [(node("v5litepod-8"), ZONE)], [held])


@pytest.mark.parametrize(
    ("profile", "accelerator_type", "zone", "scheduling", "limits"),
    [
        ("generous", "v5litepod-8", ZONE, {}, (65_536, 4096)),
        ("new_project", "v2-8", ZONE, {}, (16, 16)),
        ("new_project", "v3-8", "europe-west4-a", {"spot": True}, (48, 48)),
        ("new_project", "v5litepod-8", ZONE, {}, (-1, 4)),
        ("new_project", "v5litepod-16", ZONE, {"spot": True}, (-1, 16)),
        ("new_project", "v6e-8", "us-east1-d", {}, (0, 0)),
        ("trc_grant", "v4-64", "us-central2-b", {"spot": True}, (64, 64)),
        ("trc_grant", "v4-64", "us-central2-b", {}, (64, 64)),
        ("trc_grant", "v5litepod-64", "europe-west4-b", {"spot": True}, (-1, 64)),
        ("trc_grant", "v6e-64", "us-east1-d", {"spot": True}, (64, 64)),
        ("trc_grant", "v6e-64", "us-east5-a", {"spot": True}, (0, 0)),
        ("trc_grant", "v5litepod-8", ZONE, {"spot": True}, (-1, 4)),
    ],
)
def test_a_profile_gives_the_limits_that_nobody_set(
    engine: QuotaEngine,
    project: Project,
    profile: str,
    accelerator_type: str,
    zone: str,
    scheduling: dict[str, bool],
    limits: tuple[int, int],
) -> None:
    project.change({"quota_profile": profile})
    by_region, by_zone = quota_ids_of(node(accelerator_type, **scheduling))

    assert (engine.limit(by_region, region_of(zone)), engine.limit(by_zone, zone)) == limits


def test_an_unlimited_quota_has_room_for_anything(engine: QuotaEngine, project: Project) -> None:
    project.change({"quota_profile": "new_project"})
    asked = [(node("v6e-256"), "us-east1-d")]
    refusal(engine, asked)

    engine.set_limit("TPUV6EPerProjectPerZoneForTPUAPI", "us-east1-d", -1)
    engine.set_limit("TPUV6EPerProjectPerRegionForTPUAPI", "us-east1", -1)

    engine.check(asked, [], NUMBER)


def test_limits_outlive_the_process_and_a_reset_clears_them(store: Store, engine: QuotaEngine) -> None:
    engine.set_limit(SERVING, ZONE, 4)

    again = QuotaEngine(store, Project(store))
    refusal(again, [(node("v5litepod-8"), ZONE)])
    assert [use.to_json() for use in again.uses([])] == [
        {"quota_id": SERVING, "zone": ZONE, "limit": 4, "used": 0, "unit": "chips"}
    ]

    again.clear()
    QuotaEngine(store, Project(store)).check([(node("v5litepod-8"), ZONE)], [], NUMBER)


@given(
    held=st.lists(st.tuples(st.sampled_from(["v5litepod-1", "v5litepod-4", "v5litepod-8"]), st.integers(0, 5))),
    asked=st.lists(st.sampled_from(["v5litepod-1", "v5litepod-4", "v5litepod-8"]), min_size=1, max_size=4),
    limit=st.integers(0, 64),
)
def test_what_is_let_in_never_exceeds_the_limit(held: list[tuple[str, int]], asked: list[str], limit: int) -> None:
    engine = QuotaEngine(NoFacts(), Project(NoFacts()))
    engine.set_limit(SERVING, ZONE, limit)
    chips = sum(units_of(node(name)) * count for name, count in held) + sum(units_of(node(name)) for name in asked)
    holdings = [Held(node(name), ZONE, count) for name, count in held]

    if chips <= limit:
        engine.check([(node(name), ZONE) for name in asked], holdings, NUMBER)
    else:
        refusal(engine, [(node(name), ZONE) for name in asked], holdings)


class NoFacts:
    """A store that keeps nothing."""

    def fact(self, key: str) -> Any:
        return None

    def save_fact(self, key: str, value: str) -> None:
        pass
