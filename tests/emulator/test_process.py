"""The emulator as a process: what it keeps, what it refuses, what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from google.cloud import tpu_v2
from tiers import mostly_nightly

from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.emulator.store.database import Store, StoreUnreadable
from jupyter_tpu.emulator.workers.process_tree import processes_of

State = tpu_v2.Node.State


def worker_of(cloud: Any) -> dict[str, str]:
    return cloud.control.workers(cloud.emulator.node_name("n1"))[0]


async def test_a_restart_keeps_nodes_workers_and_the_ledger(cloud: Any, user_key: Any, login: Any) -> None:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    connection = await login(items)
    await connection.run("echo precious > kept; setsid sleep 1000 </dev/null >/dev/null 2>&1 &", check=True)
    token, spent = worker_of(cloud)["token"], cloud.control.ledger()["total_nano_usd"]

    cloud.emulator.stop()
    assert processes_of([token]) == []
    cloud.emulator.start()
    await cloud.reconnect()

    assert (await cloud.get()).state == State.READY
    assert await cloud.guest_items() == [items]
    assert (await (await login(items)).run("cat kept", check=True)).stdout == "precious\n"
    assert cloud.control.ledger()["total_nano_usd"] >= spent
    assert cloud.control.billing() == [cloud.emulator.node_name("n1")]


async def test_an_operation_in_flight_goes_on_after_a_crash(cloud: Any) -> None:
    cloud.control.set_time_scale(1)
    operation = await cloud.ask_for_node()

    cloud.emulator.kill()
    cloud.emulator.start()
    await cloud.reconnect()

    request = tpu_v2.ListNodesRequest(parent=cloud.emulator.parent)
    assert [node.name async for node in await cloud.client.list_nodes(request)] == [cloud.emulator.node_name("n1")]
    while (await cloud.get()).state != State.READY:
        cloud.control.advance(1)
    assert operation.operation.name


async def test_what_a_crash_left_running_ends_when_its_node_is_deleted(cloud: Any, user_key: Any, login: Any) -> None:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    daemon = await (await login(items)).run("setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!", check=True)
    token = worker_of(cloud)["token"]

    cloud.emulator.kill()
    assert int(daemon.stdout) in [process.pid for process in processes_of([token])]
    cloud.emulator.start()
    await cloud.reconnect()
    await cloud.delete()

    assert processes_of([token]) == []


@pytest.mark.parametrize("end", mostly_nightly(["stopped", "gone"], count=1))
async def test_what_a_crash_left_running_for_a_node_that_is_not_up_ends_at_the_next_start(
    cloud: Any, user_key: Any, login: Any, end: str
) -> None:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    await (await login(items)).run("setsid sleep 1000 </dev/null >/dev/null 2>&1 &", check=True)
    token = worker_of(cloud)["token"]

    cloud.emulator.kill()
    store = Store(cloud.emulator.state_dir / "cloud.db")
    (node,) = store.nodes()
    if end == "gone":
        store.remove_node(node.name)
    else:
        node.state = State.STOPPED
        store.save_node(node)
    store.close()
    assert processes_of([token]) != []
    cloud.emulator.start()

    assert processes_of([token]) == []


async def test_time_stands_still_while_the_emulator_is_off(cloud: Any) -> None:
    cloud.control.advance(1_000_000)
    before = cloud.control.now()

    cloud.emulator.restart()

    assert before <= cloud.control.now() < before + 100_000


def test_it_listens_on_loopback_only(emulator: Any) -> None:
    listening = [each.laddr for each in psutil.Process(emulator.pid).net_connections() if each.status == "LISTEN"]

    assert len(listening) == 2
    # gRPC binds IPv4 addresses on IPv6 sockets where it can
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


async def test_it_does_not_burn_time_when_nothing_is_due(cloud: Any) -> None:
    await cloud.create()

    percent_of_a_core = await asyncio.to_thread(psutil.Process(cloud.emulator.pid).cpu_percent, interval=1)

    assert percent_of_a_core < 20


def test_an_idle_emulator_is_small_and_does_not_grow(make_emulator: Any) -> None:
    emulator = make_emulator("--verbose")  # of its own: no other test has used it
    process = psutil.Process(emulator.pid)

    emulator.control.advance(3600)

    assert process.memory_info().rss < 120 * 1024 * 1024


@pytest.mark.parametrize(
    ("options", "words"),
    mostly_nightly(
        [
            (["--host", "0.0.0.0"], "listens on 127.0.0.1 only"),
            (["--time-scale", "0"], "more than 0"),
            (["--worker-image", "bare", "--worker-python", "/no/such/python"], "cannot start"),
            (["--worker-python", "/no/such/python"], "--worker-python /no/such/python cannot be run"),
            (["--worker-python", "/bin/cat"], "--worker-python /bin/cat is not a Python"),
            (["--project", "A/b c"], "'A/b c' is not a project id"),
        ],
        count=1,
    ),
)
def test_what_it_cannot_do_is_said_in_words(tmp_path: Path, options: list[str], words: str) -> None:
    argv = [sys.executable, "-m", "jupyter_tpu.emulator", "--state-dir", str(tmp_path / "s"), *options]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=with_package())

    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("damage", [b"no database at all" * 100, None], ids=["foreign", "folder"])
def test_a_store_that_cannot_be_read_is_named_and_kept(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "cloud.db"
    path.mkdir() if damage is None else path.write_bytes(damage)
    argv = [sys.executable, "-m", "jupyter_tpu.emulator", "--state-dir", str(tmp_path)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=with_package())

    assert done.returncode == 1
    assert f"The emulator cannot start: {path} cannot be used (" in done.stderr
    assert "move it away" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.is_dir() if damage is None else path.read_bytes() == damage


def test_a_store_that_was_damaged_later_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cloud.db"
    store = Store(path)
    with store.transaction():
        for number in range(2000):
            store.save_fact(str(number), "x" * 100)
    store.close()
    content = bytearray(path.read_bytes())
    content[20_000:40_000] = b"\xff" * 20_000
    path.write_bytes(content)

    with pytest.raises(StoreUnreadable, match="move it away"):
        Store(path)


def with_package() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize(
    "number",
    mostly_nightly([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], count=1),
    ids=lambda number: number.name,
)
def test_without_a_state_folder_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["pid"] == process.pid
        process.send_signal(number)
        assert process.wait(timeout=120) == 0

    assert list(tmp_path.iterdir()) == []


def test_one_that_was_started_with_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    with started(tmp_path, "nohup") as process:
        assert process.stdout is not None
        control = EmulatorControl(json.loads(process.stdout.readline())["rest"])
        process.send_signal(signal.SIGHUP)
        assert control.info()["pid"] == process.pid
        process.terminate()
        assert process.wait(timeout=120) == 0


async def test_closing_the_terminal_ends_the_workers_too(cloud: Any, user_key: Any, login: Any) -> None:
    await cloud.create(metadata=user_key.metadata)
    (items,) = await cloud.guest_items()
    await (await login(items)).run("setsid sleep 1000 </dev/null >/dev/null 2>&1 &", check=True)
    token = worker_of(cloud)["token"]

    cloud.emulator.hang_up()

    assert processes_of([token]) == []


def started(folder: Path, *before: str) -> subprocess.Popen[str]:
    """An emulator whose state folder is a new one in this folder."""
    argv = [*before, sys.executable, "-m", "jupyter_tpu.emulator", "--json"]
    environment = {**with_package(), "TMPDIR": str(folder)}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
