"""Faults over time, from a script or generated from a seed. All functions except `play` are pure.

A script is JSON: ``{"faults": [{"at_s": 1.5, "verb": "reset"}, {"at_s": 3, "verb": "stall", "for_s": 2}]}``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.verbs import BOTH, DOWN, UP, LinkFault, link_fault_from_json
from jupyter_tpu.emulator.resources import fields

Moment = tuple[float, LinkFault]
"""Seconds since the previous fault, and the fault."""

HARMFUL = ("reset", "finish", "half_close", "stall", "black_hole", "cut", "corrupt", "refuse", "slice", "latency")
# Our choices. Random faults last at most 3 s and begin within the first 4000 bytes, which even a short session reaches.
_LONGEST_S = 3.0
_WITHIN_BYTES = 4000


def script_from_json(data: Mapping[str, Any]) -> list[Moment]:
    """Parse a script; raises ValueError or KeyError if it is invalid."""
    timed = sorted(((_at(each), _fault(each)) for each in data["faults"]), key=lambda each: each[0])
    # convert times to pauses, because `play` sleeps between faults
    before = [0.0, *(at for at, _ in timed)]
    return [(at - earlier, fault) for (at, fault), earlier in zip(timed, before, strict=False)]


def _at(each: Mapping[str, Any]) -> float:
    return fields.amount(each["at_s"])


def _fault(each: Mapping[str, Any]) -> LinkFault:
    return link_fault_from_json({name: value for name, value in each.items() if name != "at_s"})


def random_script(seed: int, every_s: float, verbs: Sequence[str] = HARMFUL) -> Iterator[Moment]:
    """Yield an endless series of faults, one every `every_s` seconds on average; each fault has a limited duration."""
    rng = random.Random(seed)
    while True:
        yield rng.expovariate(1 / every_s), random_fault(rng, rng.choice(verbs))


def random_fault(rng: random.Random, verb: str) -> LinkFault:
    """Return a fault with this `verb` and with random values in all other fields."""
    return LinkFault(
        verb=verb,
        direction=rng.choice((UP, DOWN) if verb == "half_close" else (UP, DOWN, BOTH)),
        ms=rng.uniform(0, 200),
        kib_per_s=rng.uniform(8, 512),
        bytes=rng.randint(1, 500),
        gap_ms=rng.uniform(0, 1),
        after=rng.randrange(_WITHIN_BYTES),
        at=rng.randrange(_WITHIN_BYTES),
        for_s=rng.uniform(0.1, _LONGEST_S),
    )


async def play(proxy: FaultProxy, script: Iterable[Moment]) -> None:
    """Apply each fault of a script at its time."""
    for wait_s, fault in script:
        await asyncio.sleep(wait_s)
        proxy.apply(fault)
