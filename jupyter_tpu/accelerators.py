"""Accelerator types: their shape, the zones that offer them and their list prices.

The functions read ``catalogue.json``, which contains dated facts from public pages and their sources. The catalogue
doesn't show what is available to a project: offered ≠ quota ≠ capacity ≠ allow-list. Prices read later from Google's
Billing Catalog take precedence, see `set_live_prices`. This module also runs on the worker (Python 3.10, standard
library only).
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.models import Price
from jupyter_tpu.provisioning import Provisioning, price_mode

QuotaUnit = Literal["chips", "TensorCores"]

# A runtime version that can be requested. The catalogue also lists patterns for families of versions, such as
# "tpu-vm-tf-2.x.y[-pod]", which can't be requested.
_CONCRETE = re.compile(r"[a-z0-9.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator type.

    Attributes:
        type: the API's name, such as ``v5litepod-8``; v2 to v5p names count TensorCores, v5litepod and v6e count chips.
        workers: number of TPU VMs in a node of this type.
        jax_devices: ``len(jax.devices())`` over all workers.
        hbm_gib_total: memory of all chips, in GiB.
    """

    type: str
    generation: str
    topology: str
    chips: int
    tensorcores: int
    workers: int
    chips_per_worker: int
    jax_devices: int
    hbm_gib_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A TPU generation, as the Cloud TPU API offers it.

    Attributes:
        name: its name in the catalogue, such as ``v5e``.
        api_type: its ``AcceleratorConfig.Type``, such as ``V5LITE_POD``.
        quota_family: its name in the ids of its quotas, such as ``V5s``.
        quota_metrics: names of its Service Usage metrics, such as ``tpu-v5s-litepod``, keyed by the part of the quota
            id after the family, such as ``Litepod``; the metric of small nodes comes first.
        quota_unit: the unit of its quotas.
        gce_machine_type: template of its machine types, such as ``ct5lp-hightpu-{chips}t``.
        device_files: glob pattern of its device files, such as ``/dev/vfio/*``.
        flex_start_zones: the zones that offer flex-start.
        is_wrapped: whether a slice's long axes have wraparound links.
        has_torch_tpu: whether TorchTPU supports its chips.
    """

    name: str
    api_type: str
    cores_per_chip: int
    quota_family: str
    quota_metrics: Mapping[str, str]
    quota_unit: QuotaUnit
    gce_machine_type: str
    device_files: str
    flex_start_zones: tuple[str, ...]
    is_wrapped: bool
    has_torch_tpu: bool


@dataclass(slots=True)
class _PricesRead:
    """Prices read from the Billing Catalog, in the format of the catalogue's ``prices``."""

    rows: tuple[Mapping[str, Any], ...] = ()


_READ = _PricesRead()


def set_live_prices(rows: Iterable[Mapping[str, Any]]) -> None:
    """Use these prices instead of the catalogue's in the whole process; they replace prices set earlier."""
    _READ.rows = tuple(rows)


@functools.cache
def catalogue() -> Mapping[str, Any]:
    """Return the whole catalogue, read once from the package."""
    text = resources.files("jupyter_tpu").joinpath("catalogue.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@functools.cache
def accelerators() -> Mapping[str, Accelerator]:
    """Return all accelerator types of the Cloud TPU API, by name."""
    return {row["accelerator_type"]: _accelerator_of(row) for row in catalogue()["accelerator_types"]}


def _accelerator_of(row: Mapping[str, Any]) -> Accelerator:
    generation = catalogue()["generations"][row["generation"]]
    return Accelerator(
        type=row["accelerator_type"],
        generation=row["generation"],
        topology=row["topology"],
        chips=row["chips"],
        tensorcores=row["tensorcores"],
        workers=row["vms"],
        chips_per_worker=row["chips_per_vm"],
        jax_devices=row["chips"] * generation["jax_devices_per_chip"],
        hbm_gib_total=row["hbm_gib_total"],
    )


def canonical_type(accelerator_type: str) -> str:
    """Return the API's name of a type: ``v5litepod-8`` for ``v5e-8``; any other name stays unchanged."""
    generation, _, size = accelerator_type.partition("-")
    return f"v5litepod-{size}" if generation.lower() == "v5e" and size else accelerator_type


def refuse_unserved(accelerator_type: str) -> None:
    """Raise an error for a generation that the Cloud TPU API can't create.

    Raises:
        BadInput: the generation exists only on Compute Engine and GKE.
    """
    generation = accelerator_type.partition("-")[0].lower()
    row = catalogue()["generations"].get(generation)
    if row is not None and not row["api_type"]:
        raise BadInput(
            Text(
                "The Cloud TPU API does not offer {accelerator_type}: it is available only on Compute Engine and GKE.",
                accelerator_type=accelerator_type[:70],
            ),
            exists="Nothing was created.",
            hint=Text(
                "Choose an accelerator type such as v6e-8. Supported generations: {generations}.",
                generations=", ".join(generations()),
            ),
        )


def find_accelerator(accelerator_type: str) -> Accelerator | None:
    """Return the type with this name, or None if it is not in the catalogue, for example because it is new."""
    return accelerators().get(canonical_type(accelerator_type))


def accelerator(accelerator_type: str) -> Accelerator:
    """Return the type with this name.

    Raises:
        BadInput: the catalogue has no such type; the hint lists similar types.
    """
    refuse_unserved(accelerator_type)
    found = find_accelerator(accelerator_type)
    if found is None:
        near = difflib.get_close_matches(accelerator_type, accelerators(), n=6, cutoff=0.4) or list(accelerators())
        raise BadInput(
            Text(
                "{accelerator_type} is not a known accelerator type.",
                accelerator_type=repr(accelerator_type[:70]),
            ),
            exists="No request was sent to the cloud.",
            hint=Text("Similar types: {types}.", types=", ".join(near)),
        )
    return found


def generations() -> tuple[str, ...]:
    """Return the generations that the Cloud TPU API can create, oldest first (TPU7x and later need Compute Engine)."""
    return tuple(name for name, row in catalogue()["generations"].items() if row["api_type"])


@functools.cache
def generation_facts(name: str) -> Generation:
    """Return a generation by name; raise KeyError if `generations` doesn't contain it."""
    row = catalogue()["generations"][name]
    quota = row["quota"]
    return Generation(
        name=name,
        api_type=row["api_type"],
        cores_per_chip=row["cores_per_chip"],
        quota_family=quota["family"],
        quota_metrics=quota["metrics"],
        quota_unit=quota["unit"],
        gce_machine_type=row["gce_machine_type"],
        device_files=row["dev_path"],
        flex_start_zones=tuple(row.get("flex_start_zones", ())),
        is_wrapped=row.get("wraps", False),
        has_torch_tpu=row.get("torch_tpu", False),
    )


def zones_for(generation: str) -> tuple[str, ...]:
    """Return the zones where the Cloud TPU API offers a generation, in the catalogue's order."""
    # The catalogue also lists zones of generations that only Compute Engine can create.
    rows = catalogue()["zones"] if generation in generations() else ()
    return tuple(row["zone"] for row in rows if row["generation"] == generation)


def zones_for_type(accelerator_type: str) -> tuple[str, ...]:
    """Return the zones that offer this exact type; some zones offer only some types of a generation."""
    kind = accelerator(accelerator_type)
    return tuple(zone for zone in zones_for(kind.generation) if kind.type in types_in_zone(zone))


def zones() -> tuple[str, ...]:
    """Return all zones that offer any type, sorted."""
    return tuple(sorted({zone for generation in generations() for zone in zones_for(generation)}))


def types_in_zone(zone: str) -> tuple[str, ...]:
    """Return the accelerator types that a zone offers, sorted by generation and size."""
    offered: list[str] = []
    for row in catalogue()["zones"]:
        if row["zone"] == zone and row["generation"] in generations():
            # A row without a list of types offers all types of its generation.
            offered += row.get("accelerator_types") or _types_of(row["generation"])
    return tuple(name for name in accelerators() if name in offered)


def _types_of(generation: str) -> list[str]:
    return [name for name, each in accelerators().items() if each.generation == generation]


def runtime_versions(generation: str) -> tuple[str, ...]:
    """Return the runtime versions (VM images) that fit a generation; the first is the default."""
    rows = catalogue()["generations"].get(generation, {}).get("runtime", ())
    return tuple(name for name in rows if _CONCRETE.fullmatch(name))


def region_of(zone: str) -> str:
    """Return the region of a zone: ``us-central1`` for ``us-central1-a``. Prices are listed by region."""
    return zone.rpartition("-")[0]


def list_price(accelerator_type: str, zone: str, spot: bool) -> Price | None:
    """Return the list price of a node of this type, or None if the price is unknown, which does not mean free."""
    return price_in_mode(accelerator_type, zone, "spot" if spot else "on-demand")


def price_on_terms(accelerator_type: str, zone: str, provisioning: Provisioning) -> Price | None:
    """Return the list price under a provisioning model. Reserved nodes have none: their reservation is billed."""
    return price_in_mode(accelerator_type, zone, price_mode(provisioning))


def price_in_mode(accelerator_type: str, zone: str, mode: str) -> Price | None:
    """Return the list price for a price mode of the catalogue, such as ``on-demand``, ``spot`` or ``flex-start``."""
    kind = find_accelerator(accelerator_type)
    if kind is None:
        return None
    return _newest(_READ.rows, kind, zone, mode, is_live=True) or table_price(accelerator_type, zone, mode)


def table_price(accelerator_type: str, zone: str, mode: str) -> Price | None:
    """Return the list price from the package's dated table only."""
    kind = find_accelerator(accelerator_type)
    return _newest(catalogue()["prices"], kind, zone, mode, is_live=False) if kind else None


def _newest(
    prices: Iterable[Mapping[str, Any]], kind: Accelerator, zone: str, mode: str, *, is_live: bool
) -> Price | None:
    rows = [row for row in prices if _is_price_of(row, kind, zone, mode)]
    if not rows:
        return None
    # If two prices have the same date, use the higher one, so that an estimate is never too low.
    newest = max(rows, key=lambda row: (str(row["as_of"]), row["usd_per_chip_hour"]))
    dollars = round(newest["usd_per_chip_hour"] * kind.chips, 4)
    return Price(usd_per_hour=dollars, as_of=newest["as_of"], source=newest["source"], is_live=is_live)


def _is_price_of(row: Mapping[str, Any], kind: Accelerator, zone: str, mode: str) -> bool:
    # v2 and v3 have separate prices for a single VM ("device") and for a slice of a pod.
    variant = f"{kind.generation} {'device' if kind.workers == 1 else 'pod'}"
    return (
        row["generation"] == kind.generation
        and row["mode"] == mode
        and region_of(zone) in row["region"].split("|")
        and row.get("variant", variant) == variant
    )


def describe(accelerator_type: str) -> str:
    """Describe a type, such as ``8 chips of TPU v5e (2x4) on 1 VM, 128 GiB of HBM``; return "" for an unknown type."""
    kind = find_accelerator(accelerator_type)
    if kind is None:
        return ""
    return Text(
        "{chips} of TPU {generation} ({topology}) on {workers}, {gib} GiB of HBM",
        chips=Text("1 chip") if kind.chips == 1 else Text("{count} chips", count=kind.chips),
        generation=kind.generation,
        topology=kind.topology,
        workers=Text("1 VM") if kind.workers == 1 else Text("{count} VMs", count=kind.workers),
        gib=kind.hbm_gib_total,
    )
