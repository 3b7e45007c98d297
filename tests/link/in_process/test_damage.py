"""A record that is damaged under a living agent costs what is damaged, tells it, and never the link."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_tpu.wire.entries import encode_entry
from jupyter_tpu.wire.multipart import Channel

BODIES = [b"one", b"two", b"three", b"four", b"five"]
SIZES = [len(encode_entry(1, 0.0, 3, [body])) for body in BODIES]


def missing(ear: Any) -> set[int]:
    """The seqs that the stream reported as missing."""
    found: set[int] = set()
    for _, channel, body in ear.messages:
        if channel == "event":
            cut = json.loads(body)
            assert cut["event"] == "cut"
            found |= set(range(cut["first_seq"], cut["last_seq"] + 1))
    return found


def delivered(ear: Any) -> dict[int, bytes]:
    return {seq: body for seq, channel, body in ear.messages if channel == "iopub"}


@pytest.mark.parametrize("entry", range(len(BODIES)))
async def test_a_record_damaged_at_any_byte_goes_on_behind_it(place: Any, new_ear: Any, entry: int) -> None:
    link = place.link()
    await link.open()
    for at in range(sum(SIZES[:entry]), sum(SIZES[: entry + 1])):
        kernel, ear = place.new_kernel(), new_ear()
        kernel.say(Channel.IOPUB, *BODIES)
        kernel.damage(at)
        stream = ear.attach(link, kernel)
        await ear.until(lambda ear=ear: delivered(ear).keys() | missing(ear) >= set(range(1, 6)))
        await link.call("kernel_info", {"kernel_id": kernel.kernel_id})
        kernel.say(Channel.IOPUB, b"after")
        await ear.until(lambda ear=ear: 6 in delivered(ear))
        assert entry + 1 in missing(ear), at
        assert not delivered(ear).keys() & missing(ear), at
        assert delivered(ear).items() <= dict(enumerate([*BODIES, b"after"], 1)).items(), at
        stream.close()
        place.forget(kernel)
    assert link.state == "live"
