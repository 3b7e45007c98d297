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


JOINED = """\
import emulated_tpu, jax, os
jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("all",))
spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("all"))
parts = jax.jit(lambda: jax.numpy.arange(1024.0), out_shardings=spread)()
print(jax.process_index(), jax.process_count(), jax.device_count(), jax.local_device_count())
print(float(jax.jit(lambda values: values.sum())(parts)), emulated_tpu.holder() == os.getpid())
"""


@pytest.mark.shows("jax-joins-the-workers")
async def test_plain_jax_joins_the_workers_of_a_slice(cloud: Any, user_key: Any, login: Any) -> None:
    await cloud.create(accelerator_type="v5p-16", runtime_version="v2-alpha-tpuv5", metadata=user_key.metadata)
    connections = [await login(items) for items in await cloud.guest_items()]

    done = await asyncio.gather(*(each.run("python3 -", input=JOINED) for each in connections))

    assert [each.exit_status for each in done] == [0, 0], [each.stderr for each in done]
    lines = [[line for line in each.stdout.splitlines() if not line.startswith("[Gloo]")] for each in done]
    assert lines == [["0 2 8 4", "523776.0 True"], ["1 2 8 4", "523776.0 True"]]
