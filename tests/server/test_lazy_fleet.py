"""A fleet is opened once for all who ask, and asked for again after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from jupyter_tpu.errors import CredentialsMissing
from jupyter_tpu.server.lazy_fleet import LazyFleet
from jupyter_tpu.server.served_cloud import NodeAccess, ServedCloud

if TYPE_CHECKING:
    from jupyter_tpu.cloud.settings import CloudSettings
    from jupyter_tpu.fleet.assembly import OpenFleet


class Opening:
    """Counts how often a fleet is opened and closed; fails while `failure` is set."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.opened = 0
        self.closed = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[OpenFleet]:
        self.opened += 1
        await asyncio.sleep(0)
        if self.failure:
            raise self.failure
        yield cast("OpenFleet", object())
        self.closed += 1


async def test_all_who_ask_at_once_get_the_same_fleet() -> None:
    opening = Opening()
    lazy = LazyFleet(opening)

    fleets: list[Any] = await asyncio.gather(*(lazy.get() for _ in range(5)))

    assert len(set(map(id, fleets))) == 1
    assert opening.opened == 1


async def test_a_failure_is_remembered_for_a_while() -> None:
    opening = Opening()
    opening.failure = CredentialsMissing("Nobody is signed in.")
    lazy = LazyFleet(opening, retry_after_s=1000)

    for _ in range(3):
        with pytest.raises(CredentialsMissing):
            await lazy.get()

    assert opening.opened == 1


async def test_who_signs_in_later_needs_no_new_server() -> None:
    opening = Opening()
    opening.failure = CredentialsMissing("Nobody is signed in.")
    lazy = LazyFleet(opening, retry_after_s=0)
    with pytest.raises(CredentialsMissing):
        await lazy.get()

    opening.failure = None

    assert await lazy.get()


async def test_closing_closes_what_was_opened_and_nothing_else() -> None:
    opening = Opening()
    lazy = LazyFleet(opening)
    await lazy.close()
    assert opening.closed == 0

    await lazy.get()
    await lazy.close()

    assert opening.closed == 1


async def test_a_cloud_with_other_settings_is_opened_at_once_although_nobody_asks() -> None:
    asked = 0

    def settings() -> CloudSettings:
        nonlocal asked
        asked += 1
        raise CredentialsMissing("Nobody is signed in.")

    # its budgets and auto-stop must go on while the panel shows another cloud
    await ServedCloud(settings, NodeAccess(), lambda change: None, logging.getLogger(__name__)).reopen()

    assert asked == 1
