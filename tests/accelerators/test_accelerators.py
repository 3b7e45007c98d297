"""What the catalogue says of accelerator types."""

from __future__ import annotations

import math

import pytest

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.limits import quota_ids as emulated_quota
from jupyter_tpu.emulator.metadata.facts import WorkerFacts
from jupyter_tpu.emulator.metadata.tree import metadata_tree
from jupyter_tpu.emulator.resources.protos import new
from jupyter_tpu.errors import BadInput
from jupyter_tpu.money import quota_ids


@pytest.mark.parametrize(
    ("name", "chips", "tensorcores", "workers", "jax_devices"),
    [
        ("v2-8", 4, 8, 1, 8),
        ("v3-32", 16, 32, 4, 32),
        ("v4-8", 4, 8, 1, 4),
        ("v5litepod-1", 1, 1, 1, 1),
        ("v5litepod-8", 8, 8, 1, 8),
        ("v5litepod-16", 16, 16, 4, 16),
        ("v5p-16", 8, 16, 2, 8),
        ("v6e-8", 8, 8, 1, 8),
    ],
)
def test_a_type_has_its_chips(name: str, chips: int, tensorcores: int, workers: int, jax_devices: int) -> None:
    kind = accelerators.accelerator(name)
    assert (kind.chips, kind.tensorcores, kind.workers, kind.jax_devices) == (chips, tensorcores, workers, jax_devices)


@pytest.mark.parametrize("name", accelerators.accelerators())
def test_every_type_is_consistent(name: str) -> None:
    kind = accelerators.accelerator(name)
    assert math.prod(int(side) for side in kind.topology.split("x")) == kind.chips
    assert kind.workers * kind.chips_per_worker == kind.chips
    assert accelerators.runtime_versions(kind.generation)
    assert accelerators.zones_for_type(name)
    assert accelerators.describe(name)


@pytest.mark.parametrize("generation", accelerators.generations())
def test_a_generations_row_gives_its_nodes_quotas_and_a_machine_type(generation: str) -> None:
    kinds = [kind for kind in accelerators.accelerators().values() if kind.generation == generation]
    assert kinds
    for kind in kinds:
        node = new("Node", name="projects/p/locations/z/nodes/n", accelerator_type=kind.type)
        quotas = [quota.quota_id for quota in quota_ids.quotas_of(kind, is_preemptible=False)]
        assert len(quotas) == 2
        assert set(quotas) == {str(quota) for quota in emulated_quota.quota_ids_of(node)}
        facts = WorkerFacts(node=node, worker_id=0, hostname="h", project="p", project_number="1")
        machine_type = metadata_tree(facts)["instance"]["machine-type"]
        assert machine_type.removeprefix("projects/1/machineTypes/").strip("{}")


def test_an_unknown_type_is_refused_with_those_that_come_near() -> None:
    with pytest.raises(BadInput) as refused:
        accelerators.accelerator("v5lite-8")
    assert "v5litepod-8" in refused.value.hint
    assert accelerators.find_accelerator("v5lite-8") is None
    assert accelerators.describe("v5lite-8") == ""


@pytest.mark.parametrize(
    ("name", "zone", "spot", "dollars"),
    [
        ("v5litepod-8", "us-central1-a", False, 9.6),
        ("v5litepod-8", "us-central1-a", True, 4.8),
        ("v6e-8", "us-east5-b", False, 21.6),
        ("v2-8", "europe-west4-a", False, 4.95),
        ("v2-32", "europe-west4-a", False, 26.4),
        ("v2-8", "us-central1-b", False, 4.5),
        ("v2-8", "us-central1-b", True, 1.35),
        ("v5p-8", "us-central1-a", False, 16.8),
        ("v6e-8", "us-east1-d", True, 4.3537),
        ("v5litepod-8", "us-south1-a", False, 11.328),
    ],
)
def test_a_node_lists_for_its_chips(name: str, zone: str, spot: bool, dollars: float) -> None:
    price = accelerators.list_price(name, zone, spot)
    assert price is not None
    assert price.usd_per_hour == dollars
    assert price.as_of
    assert price.source


@pytest.mark.parametrize(("name", "zone"), [("v2-32", "asia-east1-c"), ("v5litepod-8", "mars-a"), ("v99-1", "us-a")])
def test_an_unknown_price_is_none_and_not_zero(name: str, zone: str) -> None:
    assert accelerators.list_price(name, zone, False) is None


def test_a_zone_offers_whole_generations_or_a_part() -> None:
    offered = accelerators.types_in_zone("us-central1-a")
    assert {"v5litepod-8", "v3-8", "v2-32"} <= set(offered)
    assert not {"v2-8", "v3-32", "v4-8"} & set(offered)
    assert accelerators.types_in_zone("us-central2-b")[0] == "v4-8"
    assert accelerators.types_in_zone("mars-a") == ()


def test_v5e_8_is_understood_as_v5litepod_8() -> None:
    assert accelerators.accelerator("v5e-8") == accelerators.accelerator("v5litepod-8")
    assert accelerators.zones_for_type("v5e-8") == accelerators.zones_for_type("v5litepod-8")
    assert accelerators.list_price("v5e-8", "us-central1-a", False) == accelerators.list_price(
        "v5litepod-8", "us-central1-a", False
    )
    assert accelerators.find_accelerator("v5e") is None


def test_a_generation_that_the_api_does_not_serve_has_an_answer_of_its_own() -> None:
    with pytest.raises(
        BadInput, match="does not offer tpu7x-8: it is available only on Compute Engine and GKE"
    ) as refused:
        accelerators.accelerator("tpu7x-8")
    assert "v6e" in refused.value.hint


def test_what_the_api_cannot_create_is_not_offered() -> None:
    assert "tpu7x" not in accelerators.generations()
    assert accelerators.zones_for("tpu7x") == ()


def test_runtime_versions_can_be_asked_for_by_name() -> None:
    assert accelerators.runtime_versions("v5e") == ("v2-alpha-tpuv5-lite", "v2-tpuv5-litepod")
    assert not any("[" in name for name in accelerators.runtime_versions("v2"))
