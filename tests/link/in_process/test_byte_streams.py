"""Byte streams and agents that do not know them."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_tpu.errors import WorkerUnreachable, WrongState


async def test_an_old_agent_is_asked_for_no_stream(place: Any) -> None:
    link = place.link()
    await link.open()
    with pytest.raises(WrongState, match="too old for files and ports"):
        await link.open_stream({"port": 6006})
    assert link.state == "live"


async def test_no_stream_is_opened_before_the_link(place: Any) -> None:
    with pytest.raises(WorkerUnreachable):
        await place.link().open_stream({"port": 6006})
