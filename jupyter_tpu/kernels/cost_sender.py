"""Send costs, quota, grants and budgets to a node over an open link, if no Jupyter server does so."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from jupyter_tpu.errors import TpuError
from jupyter_tpu.models import NodeName

log = logging.getLogger(__name__)

Call = Callable[[str, Mapping[str, Any]], Awaitable[object]]

# Interval between two updates: our choice. Reading all data takes seconds of CPU time and some calls to the cloud. A
# long interval is acceptable, because a notebook shows the age of the data.
_EVERY_S = 600.0
# Delay after a kernel's start, because its first cells have priority.
_FIRST_AFTER_S = 3.0
_READER = "jupyter_tpu.fleet.node_snapshots"


async def keep_sending(node: NodeName, endpoint: str, call: Call) -> None:
    """Send costs, quota, grants and budgets to the node after a short delay, then every 10 minutes, until cancelled.

    Args:
        call: calls a method of the node's agent.
    """
    await asyncio.sleep(_FIRST_AFTER_S)
    while True:
        try:
            async for params in _snapshots(node, endpoint):
                await call("tell", params)
        except (OSError, TpuError, ValueError) as error:  # the kernel works without the costs
            log.info("Costs and quota could not be sent to %s: %s", node.node_id, error)
        await asyncio.sleep(_EVERY_S)


async def _snapshots(node: NodeName, endpoint: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the parameters of each ``tell`` call, or nothing if reading fails, for example without credentials."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _READER, str(node), endpoint),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1024 * 1024,
    )
    assert process.stdout
    try:
        async for line in process.stdout:
            yield json.loads(line)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
