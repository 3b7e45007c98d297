"""Buckets that a notebook names, and what reading them from a node would add to the bill.

What leaves a bucket's region is billed, also for those whose chips a grant pays for; one reported bill came to $2.5k.
The price is the list price of `jupyter_tpu.money.egress_prices`; how much a notebook reads only its user knows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from jupyter_tpu.accelerators import region_of
from jupyter_tpu.errors import BadInput
from jupyter_tpu.money.egress_prices import AS_OF, SOURCE, usd_per_gib

Verdict = Literal["same", "spread", "elsewhere", "unknown"]

MOST_BUCKETS = 20
_LONGEST_TEXT = 20_000_000
_MOST_GIB = 1e9
# the rule for bucket names: https://cloud.google.com/storage/docs/buckets#naming
# nothing that a name may be put together with may follow, or it is the beginning of another one
_BUCKET = re.compile(r"\bgs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?=[._-]{0,3}(?:[^A-Za-z0-9._{$%-]|\Z))")
_LOCATION = re.compile(r"[A-Z0-9-]{2,40}")
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """One bucket, as seen from a zone.

    Attributes:
        location: the bucket's, as Cloud Storage spells it (``US-EAST1``, ``EU``, ``NAM4``); empty while not known.
        verdict: where it lies: in the ``same`` region; ``spread`` over several; ``elsewhere``; or ``unknown``.
        usd_per_gib: list price of reading from it, at most; None where no source says.
        usd_per_epoch: the same for all that is read each time; None where either is not known.
        text: one sentence for people.
    """

    bucket: str
    location: str
    verdict: Verdict
    text: str
    usd_per_gib: float | None = None
    usd_per_epoch: float | None = None

    @property
    def is_warning(self) -> bool:
        return self.verdict in ("spread", "elsewhere")

    def to_json(self) -> dict[str, Any]:
        return {
            "bucket": self.bucket,
            "location": self.location or None,
            "verdict": self.verdict,
            "usd_per_gib": self.usd_per_gib,
            "usd_per_epoch": self.usd_per_epoch,
            "price_as_of": None if self.usd_per_gib is None else AS_OF,
            "price_source": None if self.usd_per_gib is None else SOURCE,
            "text": self.text,
        }


def buckets_in(text: str) -> tuple[str, ...]:
    """The buckets that a notebook file or a program names, in their order; never raises, and not more than a few.

    Of a notebook only the cells' sources count: what they have put out names buckets that others read.
    """
    found = dict.fromkeys(match[1] for match in _BUCKET.finditer(_sources(text[:_LONGEST_TEXT])))
    return tuple(found)[:MOST_BUCKETS]


def gibibytes(text: str) -> float:
    """How much is read, as a user writes it; raises BadInput for what is no amount."""
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount <= _MOST_GIB:
        raise BadInput(f"{text[:40]!r} is no amount in GiB.", hint="Send a number above 0, such as 100 or 0.5.")
    return amount


def egress(bucket: str, location: str, zone: str, *, why_unknown: str = "", epoch_gib: float | None = None) -> Egress:
    """What reading a bucket from a zone means.

    Args:
        location: empty while not known; `why_unknown` says why.
        epoch_gib: how much is read of it each time, in GiB; None where nobody says.
    """
    region = region_of(zone)
    place = location.upper() if _LOCATION.fullmatch(location.upper()) else ""
    verdict, text = _judged(bucket, place, region, why_unknown)
    price = usd_per_gib(place, region) if place else None
    found = Egress(
        bucket=bucket,
        location=place,
        verdict=verdict,
        text=text,
        usd_per_gib=price,
        usd_per_epoch=None if price is None or epoch_gib is None else price * epoch_gib,
    )
    return replace(found, text=f"{text.removesuffix('.')}{_cost(found, epoch_gib)}.") if found.is_warning else found


def _cost(found: Egress, epoch_gib: float | None) -> str:
    """``: $0.05 per GiB, $5.00 per epoch of 100 GiB (list price of 2025)``."""
    if found.usd_per_gib is None:
        return "; no list price is known for it"
    most = "at most " if found.verdict == "spread" else ""
    epoch = "" if found.usd_per_epoch is None else f", ${found.usd_per_epoch:,.2f} per epoch of {epoch_gib:,g} GiB"
    return f": {most}${found.usd_per_gib:.2f} per GiB{epoch} (list price of {AS_OF})"


def _judged(bucket: str, location: str, region: str, why_unknown: str) -> tuple[Verdict, str]:
    path = f"gs://{bucket}"
    if not location:
        why = f": {why_unknown.removesuffix('.')}" if why_unknown else ""
        return "unknown", f"Where {path} lies is not known{why}."
    if location.lower() == region:
        return "same", f"{path} lies in {region} too: no egress between regions."
    if _REGION.fullmatch(location.lower()):
        away = f"{path} lies in {location.lower()}, the node in {region}"
        return "elsewhere", f"{away}: egress between regions is billed per GiB read, also under a grant."
    spread = f"{path} is spread over {location}, the node lies in {region}"
    return "spread", f"{spread}: egress may be billed per GiB read, also under a grant."


def _sources(text: str) -> str:
    """The sources of a notebook's cells, or the text itself where it is no notebook."""
    try:
        cells = json.loads(text)["cells"]
        return "\n".join(_source(cell) for cell in cells)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return text


def _source(cell: Any) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)
