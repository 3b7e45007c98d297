"""A program that knows nothing of us finds the devices of its emulated worker, as on a TPU VM."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

# Not imported here: that takes two seconds of each process that collects the tests.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")

DEVICES = "import jax; print(len(jax.devices()), len(jax.devices('tpu')), float(jax.numpy.arange(8.).sum()))"
HOLD = f"{DEVICES}; import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


@pytest.fixture
async def connection(cloud: Any, user_key: Any, login: Any) -> Any:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    return await login(items)


@pytest.mark.shows("jax-takes-the-chips")
async def test_plain_jax_shows_the_devices_of_the_type_and_a_second_process_is_refused(connection: Any) -> None:
    holder = await connection.create_process(f'python3 -c "{HOLD}"')
    said = await asyncio.wait_for(holder.stdout.readline(), 120)
    pid = int(await asyncio.wait_for(holder.stdout.readline(), 120))
    second = await connection.run(f'python3 -c "{DEVICES}"')
    on_cpu = await connection.run("JAX_PLATFORMS=cpu python3 -c 'import jax; print(len(jax.devices()))'")
    holder.stdin.write_eof()
    await holder.wait()
    third = await connection.run(f'python3 -c "{DEVICES}"')

    assert said.split() == ["8", "8", "28.0"]
    assert f"Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid {pid}." in str(
        second.stderr
    )
    assert on_cpu.stdout.split() == ["1"]
    assert third.stdout.split() == ["8", "8", "28.0"]


async def test_importing_jax_takes_no_chips(connection: Any) -> None:
    done = await connection.run("python3 -c 'import jax, emulated_tpu; print(emulated_tpu.holder())'")

    assert done.stdout.split() == ["None"]
