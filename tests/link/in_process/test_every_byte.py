"""Each exchange of the protocol, cut at every byte in both directions: nothing is lost, doubled or left hanging."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tiers import mostly_nightly

from jupyter_tpu.wire.multipart import Channel


async def all_exchanges(place: Any, link: Any, ear: Any) -> None:
    """Greeting, notice, calls, attach, data, requests, express, hold, detach; one call must be performed once."""
    kernel, other = place.new_kernel(), place.new_kernel()
    kernel.say(Channel.IOPUB, b"one", b"two")
    link.begin()
    stream = ear.attach(link, kernel)
    await ear.count(2)
    stream.send("shell", [b"cell 1"])
    stream.send("shell", [b"cell 2"])
    await ear.count(4)
    stream.hold()
    await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
    kernel.say(Channel.CONTROL, b"urgent")
    await ear.until(lambda: bool(ear.early) or b"urgent" in ear.bodies)
    stream.resume()
    await ear.count(5)
    stream.close()
    await link.call("forget_kernel", {"kernel_id": other.kernel_id})
    kernel.say(Channel.IOPUB, b"unseen")
    stream = ear.attach(link, kernel, from_seq="end")
    stream.send("shell", [b"cell 3"])
    await ear.count(6)
    stream.close()
    await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
    assert link.spare == {"kernel_info": {}}
    await link.close()
    place.forget(kernel)


async def exchanged(place: Any, ear: Any, *cuts: tuple[int, int]) -> list[tuple[int, str, bytes]]:
    """What was delivered over links that are cut so."""
    place.notice = {"spare": {"kernel_info": {}}}
    async with asyncio.timeout(60):
        await all_exchanges(place, place.link(*cuts), ear)
    assert ear.early in ([], [(5, b"urgent")])
    return ear.messages


EXPECTED = [
    (1, "iopub", b"one"),
    (2, "iopub", b"two"),
    (3, "request", b"cell 1"),
    (4, "request", b"cell 2"),
    (5, "control", b"urgent"),
    (7, "request", b"cell 3"),
]


async def test_the_uncut_exchange_delivers_all(place: Any, new_ear: Any) -> None:
    assert await exchanged(place, new_ear()) == EXPECTED


@pytest.mark.parametrize("remainder", mostly_nightly(range(4), count=1))
@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_cut_after_any_byte_loses_and_doubles_nothing(
    place: Any, new_ear: Any, direction: str, remainder: int
) -> None:
    await exchanged(place, new_ear())
    stream = place.connection.stream
    size = stream.sent if direction == "up" else stream.received
    for count in range(remainder, size, 4):
        cut = (count, 10**18) if direction == "up" else (10**18, count)
        assert await exchanged(place, new_ear(), cut) == EXPECTED, f"{direction}, cut after {count} of {size} bytes"


@pytest.mark.parametrize("seed", range(4))
async def test_many_cuts_at_random_bytes_lose_and_double_nothing(place: Any, new_ear: Any, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        cuts = [(chance.randrange(1200), chance.randrange(1800)) for _ in range(12)]
        assert await exchanged(place, new_ear(), *cuts) == EXPECTED, f"seed {seed}, cuts {cuts}"
