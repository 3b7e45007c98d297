"""List prices of Cloud Storage for data that a node reads from another location. Pure.

Source: https://cloud.google.com/storage/pricing, "Data transfer within Google Cloud", as of 2025: US dollars per GiB,
the same in both directions, without tiers. Transfer within a region is free. A multi-region bucket is priced like a
bucket in another region of the same continent (https://cloud.google.com/storage/pricing-announce#network, October
2022). Other continents and the regions in `_ELSEWHERE` have separate prices, which are not in this table.
"""

from __future__ import annotations

AS_OF = "2025"
SOURCE = "cloud.google.com/storage/pricing"

_NORTH_AMERICA, _EUROPE, _ASIA = "North America", "Europe", "Asia"
_USD_PER_GIB = {
    frozenset({_NORTH_AMERICA}): 0.02,
    frozenset({_EUROPE}): 0.02,
    frozenset({_ASIA}): 0.08,
    frozenset({_NORTH_AMERICA, _EUROPE}): 0.05,
    frozenset({_NORTH_AMERICA, _ASIA}): 0.08,
    frozenset({_EUROPE, _ASIA}): 0.08,
}
_PREFIXES = {"us": _NORTH_AMERICA, "northamerica": _NORTH_AMERICA, "europe": _EUROPE, "asia": _ASIA}
# Regions (Jakarta and Querétaro) whose prices differ from those of the other regions of their continent.
_ELSEWHERE = ("asia-southeast2", "northamerica-south1")
# Multi-regions and the predefined dual-regions: https://cloud.google.com/storage/docs/locations
_SPREAD = {
    "us": _NORTH_AMERICA,
    "nam4": _NORTH_AMERICA,
    "eu": _EUROPE,
    "eur4": _EUROPE,
    "eur5": _EUROPE,
    "eur7": _EUROPE,
    "eur8": _EUROPE,
    "asia": _ASIA,
    "asia1": _ASIA,
}


def usd_per_gib(location: str, region: str) -> float | None:
    """Return the list price per GiB for reading a bucket from a region, or None if it is unknown.

    The location's case is ignored.
    """
    if location.lower() == region:
        return 0.0
    return _USD_PER_GIB.get(frozenset({_continent_of(location.lower()), _continent_of(region)}))


def _continent_of(location: str) -> str:
    """Return the continent of a region or multi-region, or an empty string if the table does not contain it."""
    if location in _ELSEWHERE:
        return ""
    return _SPREAD.get(location) or _PREFIXES.get(location.partition("-")[0], "")
