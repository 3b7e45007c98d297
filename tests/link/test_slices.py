"""A kernel on two workers: the controller beside it, the engine of the other worker, and how they end."""

from __future__ import annotations

import asyncio
import json
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import ipyparallel
import psutil
import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import BadInput, EnvironmentFailed, KernelFailed
from jupyter_tpu.link import Link

ADDRESS = "127.77.0.1"
KERNEL = {"kernel_id": "kernel-1"}
BAD: list[dict[str, Any]] = [
    {"worker": 2},
    {"worker": 0},
    {"worker": "1"},
    {"connection": "x"},
    {"workers": True},
    {"kernel_id": "../x"},
]


KNOWN = {
    "network-interfaces/0/ip": ADDRESS,
    "attributes/worker-network-endpoints": f"unknown:unknown:{ADDRESS},unknown:unknown:127.77.0.2",
    "attributes/tpu-env": "WORKER_ID: '0'\nMEGASCALE_NUM_SLICES: '2'\nMEGASCALE_COORDINATOR_ADDRESS: '127.77.0.9:80'\n",
}


class Metadata(BaseHTTPRequestHandler):
    """A metadata server that knows the network of a slice which is one of two that compute together."""

    def do_GET(self) -> None:
        known = KNOWN.get(self.path.partition("/instance/")[2])
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write((known or "").encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def metadata_host() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Pair:
    """Worker 0, where the kernel is, and worker 1."""

    def __init__(self, workers: list[Any], links: list[Link], client: Any) -> None:
        self.workers = workers
        self.links = links
        self.client = client

    async def start(self, **params: Any) -> dict[str, Any]:
        """Start everything, as a Jupyter server does; returns what the controller's start has answered."""
        engines = {"workers": 2, "engines": params}
        controller = asyncio.create_task(self.links[0].call("start_controller", {**KERNEL, **engines}))
        await asyncio.sleep(0)
        await self.client.start(workers=2)
        answer = await controller
        await self.start_engine(answer["engine_connection"], **params)
        return answer

    async def start_engine(self, connection: dict[str, Any], **params: Any) -> dict[str, Any]:
        place = {"worker": 1, "workers": 2, "connection": connection}
        return await self.links[1].call("start_engine", {**KERNEL, **place, **params})

    async def info(self, worker: int, **params: Any) -> dict[str, Any]:
        return await self.links[worker].call("slice_info", {**KERNEL, **params})

    @property
    def client_file(self) -> Path:
        told = json.loads((Home(self.workers[0].home / ".jupyter-tpu").kernels / "kernel-1/slice.json").read_text())
        return Path(told["client_file"])

    async def on_engine(self, code: str) -> Any:
        """The value of an expression on the engine, once it has joined."""
        return await asyncio.to_thread(self._on_engine, code)

    def _on_engine(self, code: str) -> Any:
        with ipyparallel.Client(str(self.client_file), timeout=60) as cluster:
            cluster.wait_for_engines(1, timeout=60, interactive=False)
            return cluster[1].apply_sync(eval, code)

    def listening(self) -> set[tuple[str, int]]:
        """Where the workers' processes listen."""
        ours = [one for worker in self.workers for one in worker.processes()]
        found = [connection for one in ours for connection in one.net_connections("tcp")]
        return {(*connection.laddr,) for connection in found if connection.status == psutil.CONN_LISTEN}

    def processes(self, worker: int, name: str) -> list[psutil.Process]:
        """Processes of this worker whose command line has this word."""
        return [one for one in self.workers[worker].processes() if name in " ".join(one.cmdline())]


@pytest.fixture
async def pair(
    worker: Any,
    new_worker: Callable[[str], Any],
    open_link: Callable[..., Awaitable[Link]],
    new_client: Any,
    metadata_host: str,
) -> Pair:
    workers = [worker, new_worker("other")]
    for one in workers:
        one.env["GCE_METADATA_HOST"] = metadata_host
    links = [await open_link(worker=one) for one in workers]
    return Pair(workers, links, new_client(links[0]))


def lets_in(address: str, server_key: bytes = b"") -> bool:
    """Whether a program with this key, or without one, can connect to a ZMQ socket."""
    failed = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        if server_key:
            socket.curve_serverkey = server_key
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
        with socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | failed) as monitor:
            socket.connect(address)
            event = recv_monitor_message(monitor)["event"]
            socket.disable_monitor()
        return event == zmq.EVENT_HANDSHAKE_SUCCEEDED


async def gone(processes: list[psutil.Process]) -> None:
    """Returns once all have ended."""
    assert processes
    await asyncio.to_thread(psutil.wait_procs, processes, 60)
    assert [one for one in processes if one.is_running()] == []


async def test_the_engine_joins_without_a_secret_in_sight_and_nothing_is_left_of_it(pair: Pair, tmp_path: Path) -> None:
    answer = await pair.start(cwd=str(tmp_path), env={"JPY_SESSION_NAME": "a.ipynb", "MINE": "7"})
    # 1. It knows its place and its folder, and has our magics.
    place = "[__import__('os').environ[name] for name in ('TPU_SLICE_WORKER', 'TPU_SLICE_WORKERS', 'MINE')]"
    assert await pair.on_engine(place) == ["1", "2", "7"]
    assert await pair.on_engine("__import__('os').getcwd()") == str(tmp_path)
    assert await pair.on_engine("'tpu' in get_ipython().magics_manager.magics['line']")
    # 2. The secret is in private files only, and only the worker's own address is listened on.
    connection = answer["engine_connection"]
    secret = connection["curve_serverkey"]
    secrets = [value for name, value in connection.items() if name.startswith("curve_")]
    ours = [*pair.workers[0].processes(), *pair.workers[1].processes()]
    assert len([one for one in ours if "ipyparallel.engine.nanny" in one.cmdline()]) == 1
    seen = " ".join(text for one in ours for text in (*one.cmdline(), *one.environ().values()))
    assert [value for value in secrets if value in seen] == []
    kept = [path for one in pair.workers for path in one.home.rglob("*connection*.json")]
    kept += [*pair.client_file.parent.glob("*.json"), pair.client_file.parents[3] / "slice.json"]
    assert sum(secret in path.read_text() for path in kept) == 3  # the controller's two, and the engine's
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    # ipyparallel's other files are in folders that only this user can enter
    assert {stat.S_IMODE(pair.client_file.parents[up].stat().st_mode) for up in (2, 3)} == {0o700}
    listening = pair.listening()
    # the second is between the controller's own two processes, and between the engine and its helper
    assert {address for address, _ in listening} == {ADDRESS, "127.0.0.1"}
    # Nobody without the file can connect anywhere.
    for where in (f"tcp://{address}:{port}" for address, port in listening):
        assert not lets_in(where)
        assert not lets_in(where, zmq.curve_keypair()[0])
    assert lets_in(f"tcp://{ADDRESS}:{connection['registration']}", secret.encode())
    # 3. It goes with the kernel.
    controller = pair.processes(0, "controller")
    await pair.links[0].call("forget_kernel", KERNEL)
    await gone(controller)
    await pair.links[1].call("stop_slice", KERNEL)
    assert [list(Home(one.home / ".jupyter-tpu").kernels.iterdir()) for one in pair.workers] == [[], []]
    assert list(Home(pair.workers[1].home / ".jupyter-tpu").slices.iterdir()) == []
    assert (await pair.info(1))["engine"] is None


async def test_after_a_restart_all_end_with_the_kernel_although_no_client_is_there(pair: Pair) -> None:
    # 1. A restart brings a new controller and a new engine.
    first = await pair.start()
    old = [*pair.processes(0, "controller"), *pair.processes(1, "--engine")]
    again = asyncio.create_task(pair.links[0].call("start_controller", {**KERNEL, "workers": 2}))
    await asyncio.sleep(0)
    answer = await pair.links[0].call("restart_kernel", {**KERNEL, "key": "secret", "workers": 2})
    second = await again
    assert second["engine_connection"]["curve_serverkey"] != first["engine_connection"]["curve_serverkey"]
    await pair.start_engine(second["engine_connection"])
    assert await pair.on_engine("6 * 7") == 42
    await gone(old)
    # 2. The kernel dies while the laptop is away.
    controller, engine = pair.processes(0, "controller"), pair.processes(1, "engine")
    for link in pair.links:
        await link.close()
    psutil.Process(answer["pid"]).kill()
    await gone(controller)
    await gone(engine)


async def test_the_next_agents_find_controller_and_engine_and_learn_how_they_end(pair: Pair) -> None:
    await pair.start(start_id="1")
    assert await pair.on_engine("__import__('os').write(2, b'my last words\\n')")
    before = [(await pair.info(0))["controller"]["pid"], (await pair.info(1))["engine"]["pid"]]
    for one in pair.workers:
        one.kill(one.agent_pid())
    assert [(await pair.info(0))["controller"]["pid"], (await pair.info(1))["engine"]["pid"]] == before
    waiting = asyncio.create_task(pair.info(1, wait=True))
    psutil.Process(before[1]).kill()
    ended = (await waiting)["engine"]
    assert not ended["alive"]
    assert (ended["exit"]["signal"], ended["exit"]["asked"]) == ("SIGKILL", False)
    assert "my last words" in ended["exit"]["stderr"]
    # What clients report of it is recorded once, and not if it is about an earlier start.
    for start_id, message in [("of an earlier start", "1"), (ended["start_id"], "2"), (ended["start_id"], "3")]:
        loss = {"worker": 1, "start_id": start_id, "message": message, "is_shown": True}
        await pair.links[0].call("report_loss", {**KERNEL, **loss})
    await pair.links[0].call("kill_kernel", KERNEL)
    assert (await pair.info(0, wait=True))["controller"]["exit"]["asked"]
    await pair.client.event("exited")
    # It has exited, so a start that fails only now doesn't end it.
    assert await pair.links[0].call("stop_slice", {**KERNEL, "reason": "4"}) == {"has_ended": False}
    assert [each["message"] for each in pair.client.messages if each.get("event") == "words"] == ["2"]


async def test_a_cell_ends_although_no_client_reports_that_an_engine_exited_before_it_joined(
    pair: Pair, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 999")
    python.chmod(0o755)
    await pair.start(python=str(python))
    # the next agent reports it, too
    pair.workers[1].kill(pair.workers[1].agent_pid())
    psutil.Process((await pair.info(1))["engine"]["pid"]).kill()
    refused = (await pair.client.run("1"))["content"]
    assert refused["ename"] == "WorkerLost"
    assert refused["evalue"].startswith("The process of worker 1 ended or does not respond. Restart")


async def test_a_worker_whose_own_jupyter_tpu_has_no_extension_is_lost_with_the_reason(
    pair: Pair, tmp_path: Path
) -> None:
    (tmp_path / "jupyter_tpu").mkdir()
    (tmp_path / "jupyter_tpu" / "__init__.py").touch()
    await pair.start(env={"PYTHONPATH": str(tmp_path)})
    last_words = (await pair.info(1, wait=True))["engine"]["exit"]["stderr"]
    assert "ModuleNotFoundError: No module named 'jupyter_tpu.notebook'" in last_words
    assert (await pair.client.run("1"))["content"]["ename"] == "WorkerLost"


async def test_another_client_finishes_the_start_of_one_that_was_killed(pair: Pair) -> None:
    # 1. The client is killed before it starts the engine, and the agent too.
    engines = {"start_id": "1", "env": {"MINE": "7"}}
    params = {**KERNEL, "workers": 2, "engines": engines}
    controller = asyncio.create_task(pair.links[0].call("start_controller", params))
    await asyncio.sleep(0)
    await pair.client.start(workers=2)
    connection = (await controller)["engine_connection"]
    pair.workers[0].kill(pair.workers[0].agent_pid())
    found = await pair.links[0].call("unfinished_start", KERNEL)
    assert found == {"engines": engines, "engine_connection": connection}
    # 2. However often the engine is asked for, it starts once, and its exit is kept.
    first, second = [await pair.start_engine(connection, **engines) for _ in range(2)]
    assert first == second
    assert await pair.on_engine("__import__('os').environ['MINE']") == "7"
    psutil.Process(first["pid"]).kill()
    assert (await pair.info(1, wait=True))["engine"]["exit"]["signal"] == "SIGKILL"
    assert await pair.start_engine(connection, **engines) == {"pid": None}
    assert (await pair.info(1))["engine"]["exit"]["signal"] == "SIGKILL"
    # 3. A finished start is not offered again, and its settings are deleted.
    await pair.links[0].call("finish_start", KERNEL)
    assert await pair.links[0].call("unfinished_start", KERNEL) == {}
    assert "MINE" not in (pair.client_file.parents[2] / "process.json").read_text()
    # 4. Without a controller, there is nothing that the engines could join.
    await pair.links[0].call("start_controller", params)
    for process in pair.processes(0, "controller"):
        process.kill()
    assert not (await pair.info(0, wait=True))["controller"]["alive"]
    with pytest.raises(KernelFailed, match="could not be started on worker 0"):
        await pair.links[0].call("unfinished_start", KERNEL)


async def test_a_worker_that_cannot_take_part_says_why(pair: Pair) -> None:
    facts = await pair.links[1].call("prepare_slice", KERNEL)
    multislice = {"MEGASCALE_NUM_SLICES": "2", "MEGASCALE_COORDINATOR_ADDRESS": "127.77.0.9:80"}
    assert facts == {"python": "", "workers": 2, "env": multislice}
    slices = Home(pair.workers[1].home / ".jupyter-tpu").slices
    (slices / "room").mkdir()  # nothing can be written there
    with pytest.raises(EnvironmentFailed, match="can't be written"):
        await pair.links[1].call("prepare_slice", KERNEL)
    for params in BAD:
        with pytest.raises(BadInput):
            await pair.links[1].call("start_engine", {**KERNEL, "worker": 1, "workers": 2, "connection": {}, **params})
    with pytest.raises(KernelFailed, match="can't run /nonexistent/python"):
        await pair.start_engine({}, python="/nonexistent/python")
    assert pair.processes(1, "--engine") == []


async def test_a_controller_without_an_address_is_not_started(worker: Any, open_link: Any) -> None:
    worker.env["GCE_METADATA_HOST"] = "127.0.0.1:9"  # nothing listens there
    link = await open_link()
    with pytest.raises(EnvironmentFailed, match="address of worker 0"):
        await link.call("start_controller", {**KERNEL, "workers": 2})
