"""Buckets that a notebook names, and what reading them from a node would add to the bill.

What leaves a bucket's region is billed, also for those whose chips a grant pays for; one reported bill came to $2.5k.
No price is named: those of Cloud Storage depend on both ends, and no dated copy of that table that can be relied on
was at hand.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from jupyter_tpu.accelerators import region_of

Verdict = Literal["same", "spread", "elsewhere", "unknown"]

MOST_BUCKETS = 20
_LONGEST_TEXT = 20_000_000
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
        text: one sentence for people.
    """

    bucket: str
    location: str
    verdict: Verdict
    text: str

    @property
    def is_warning(self) -> bool:
        return self.verdict in ("spread", "elsewhere")

    def to_json(self) -> dict[str, Any]:
        return {
            "bucket": self.bucket,
            "location": self.location or None,
            "verdict": self.verdict,
            "text": self.text,
        }


def buckets_in(text: str) -> tuple[str, ...]:
    """The buckets that a notebook file or a program names, in their order; never raises, and not more than a few.

    Of a notebook only the cells' sources count: what they have put out names buckets that others read.
    """
    found = dict.fromkeys(match[1] for match in _BUCKET.finditer(_sources(text[:_LONGEST_TEXT])))
    return tuple(found)[:MOST_BUCKETS]


def egress(bucket: str, location: str, zone: str, *, why_unknown: str = "") -> Egress:
    """What reading a bucket from a zone means; `location` is empty while not known, and `why_unknown` says why."""
    region = region_of(zone)
    place = location.upper() if _LOCATION.fullmatch(location.upper()) else ""
    verdict, text = _judged(bucket, place, region, why_unknown)
    return Egress(bucket=bucket, location=place, verdict=verdict, text=text)


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
