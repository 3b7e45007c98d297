"""Cloud Storage buckets that a notebook uses, and the cost of reading them from a node.

Data that leaves a bucket's region is billed, even if a grant pays for the chips; one TRC user reported a bill of $2.5k
(r/googlecloud, January 2026). Prices are the list prices in `jupyter_tpu.money.egress_prices`. Only the user knows how
much data a notebook reads.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from jupyter_tpu.accelerators import region_of
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.money.egress_prices import AS_OF, SOURCE, usd_per_gib

Verdict = Literal["same", "spread", "elsewhere", "unknown"]

MOST_BUCKETS = 20
"""Maximum number of buckets per notebook: each takes a request to Cloud Storage while the form waits."""
_LONGEST_TEXT = 20_000_000  # characters of a file to search, so that a huge notebook does not block the server
_MOST_GIB = 1e9  # more is a typo and would make the price unreadable
# The rule for bucket names: https://cloud.google.com/storage/docs/buckets#naming
# If a format string continues a name ("gs://data-{zone}"), it is only a prefix, so it must not match.
_BUCKET = re.compile(r"\bgs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?=[._-]{0,3}(?:[^A-Za-z0-9._{$%-]|\Z))")
_LOCATION = re.compile(r"[A-Z0-9-]{2,40}")
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """The location of one bucket relative to a node's zone, and the cost of reading the bucket from that zone.

    Attributes:
        location: the bucket's location as Cloud Storage spells it (``US-EAST1``, ``EU``, ``NAM4``); empty if unknown.
        verdict: where the bucket is: in the node's region (``same``), in several regions (``spread``), ``elsewhere`` or
            ``unknown``.
        usd_per_gib: the highest list price for reading 1 GiB, or None if it is unknown.
        usd_per_epoch: the price of reading the bucket's data once, or None if the price or the amount of data is
            unknown.
        text: a sentence that describes the location and the cost to the user.
    """

    bucket: str
    location: str
    verdict: Verdict
    text: str
    usd_per_gib: float | None = None
    usd_per_epoch: float | None = None

    @property
    def is_warning(self) -> bool:
        """Whether reading the bucket may cost money."""
        return self.verdict in ("spread", "elsewhere")

    def to_json(self) -> dict[str, Any]:
        """Return this bucket's row in the response to ``GET egress``."""
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
    """Return the first `MOST_BUCKETS` buckets that a notebook or program mentions, in order; never raises.

    In a notebook, only cell sources count, because outputs may mention buckets that other programs read.
    """
    found = dict.fromkeys(match[1] for match in _BUCKET.finditer(_sources(text[:_LONGEST_TEXT])))
    return tuple(found)[:MOST_BUCKETS]


def gibibytes(text: str) -> float:
    """Parse an amount in GiB entered by a user.

    Raises:
        BadInput: the text is not a number in range.
    """
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount <= _MOST_GIB:
        raise BadInput(
            Text("{value} is not an amount in GiB.", value=repr(text[:40])),
            hint="Send a number above 0, such as 100 or 0.5.",
        )
    return amount


def egress(bucket: str, location: str, zone: str, *, why_unknown: str = "", epoch_gib: float | None = None) -> Egress:
    """Compare a bucket's location with a node's zone and return the cost of reading the bucket.

    Args:
        location: as Cloud Storage spells it; empty if unknown, in which case `why_unknown` explains why.
        epoch_gib: the amount that the notebook reads from the bucket per epoch, in GiB; None if not specified.
    """
    region = region_of(zone)
    # the location is untrusted and is shown in a text, so anything but the known form counts as unknown
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
    if not found.is_warning:
        return found
    return replace(found, text=text.with_arguments(cost=_cost(found, epoch_gib)))


def _cost(found: Egress, epoch_gib: float | None) -> str:
    """Return the prices as text, such as ``: $0.05 per GiB, $5.00 per epoch of 100 GiB (list price of 2025)``."""
    if found.usd_per_gib is None:
        return Text("; no list price is known for it")
    most = Text("at most ") if found.verdict == "spread" else ""
    epoch = (
        ""
        if found.usd_per_epoch is None
        else Text(
            ", ${usd} per epoch of {count} GiB",
            usd=f"{found.usd_per_epoch:,.2f}",
            count=f"{epoch_gib:,g}",
        )
    )
    return Text(
        ": {most}${usd} per GiB{epoch} (list price of {as_of})",
        most=most,
        usd=f"{found.usd_per_gib:.2f}",
        epoch=epoch,
        as_of=AS_OF,
    )


def _judged(bucket: str, location: str, region: str, why_unknown: str) -> tuple[Verdict, Text]:
    path = f"gs://{bucket}"
    if not location:
        why = f": {why_unknown.removesuffix('.')}" if why_unknown else ""
        return "unknown", Text("The location of {path} is unknown{why}.", path=path, why=why)
    if location.lower() == region:
        return "same", Text("{path} is also in {region}: no egress between regions.", path=path, region=region)
    if _REGION.fullmatch(location.lower()):
        away = Text(
            "{path} is in {location}, and the node is in {region}", path=path, location=location.lower(), region=region
        )
        return "elsewhere", Text(
            "{away}: egress between regions is billed per GiB read, even under a grant{cost}.", away=away, cost=""
        )
    spread = Text(
        "{path} is stored in several regions ({location}), and the node is in {region}",
        path=path,
        location=location,
        region=region,
    )
    return "spread", Text(
        "{spread}: egress may be billed per GiB read, even under a grant{cost}.", spread=spread, cost=""
    )


def _sources(text: str) -> str:
    """Return the sources of a notebook's cells, or the text itself if it is not a notebook."""
    try:
        cells = json.loads(text)["cells"]
        return "\n".join(_source(cell) for cell in cells)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return text


def _source(cell: Any) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)
