"""Runs in namespaces of its own: an emulator, a Jupyter server, and for a node of each type three who tell its metrics.

Arguments: a folder, and accelerator types. What the chips are to tell is laid down, other numbers for each worker; then
the REST API, `jupyter tpu top` and the unmodified tpu-info say what they see. Prints one JSON object: for each type
what was laid down and what each of the three said, worker by worker. See `tpu_info_run` for how tpu-info is made to
look at emulated chips; it knows only the port 8431, so the second worker of a slice is passed on there.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from tpu_info_run import make_node, raise_loopback, show_chips, start_emulator, tpu_info

from jupyter_tpu import accelerators
from jupyter_tpu.emulator.control import EmulatorControl
from jupyter_tpu.ssh import UserKey

PATIENCE_S = 120
PORT = 8431
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def main(folder: Path, types: list[str]) -> None:
    raise_loopback()
    places = {"HOME": folder / "home", "JUPYTER_TPU_DATA_DIR": folder / "tpu", "XDG_RUNTIME_DIR": folder}
    for name in ("DATA", "CONFIG", "RUNTIME"):
        places[f"JUPYTER_{name}_DIR"] = folder / name.lower()
    os.environ.update({name: str(place) for name, place in places.items()})
    (folder / "home").mkdir()
    print(json.dumps(asyncio.run(all_answers(types, folder))))  # noqa: T201 - this is what it is for


async def all_answers(types: list[str], folder: Path) -> dict[str, Any]:
    ready = start_emulator(folder / "state")
    os.environ.update(JUPYTER_TPU_ENDPOINT=ready["grpc"], JUPYTER_TPU_PROJECT=ready["project"])
    cloud = Cloud(ready["rest"], UserKey.load_or_create(folder / "tpu" / "ssh"))
    server = start_server(folder)
    return {each: await answers(each, folder / each, cloud, server) for each in types}


class Cloud:
    """The emulated cloud, and the key that opens its workers."""

    def __init__(self, rest: str, key: UserKey) -> None:
        self.control = EmulatorControl(rest)
        self.key = key
        self.client = tpu_v2.TpuClient(
            transport="rest", credentials=AnonymousCredentials(), client_options={"api_endpoint": rest}
        )

    def make_node(self, accelerator_type: str) -> tpu_v2.Node:
        kind = accelerators.accelerator(accelerator_type)
        return make_node(self.client, kind, f"{getpass.getuser()}:{self.key.public_line}")

    async def log_in(self, name: str, stack: AsyncExitStack) -> list[asyncssh.SSHClientConnection]:
        """To each worker of a node."""
        found = self.client.get_guest_attributes(tpu_v2.GetGuestAttributesRequest(name=name)).guest_attributes
        ports = [int(next(i.value for i in each.query_value.items if i.key == "ssh-port")) for each in found]
        keys = {"client_keys": [str(self.key.private_path)], "known_hosts": None, "config": None}
        return [
            await stack.enter_async_context(
                asyncssh.connect("127.0.0.1", port, username=getpass.getuser(), **keys)  # type: ignore[arg-type]
            )
            for port in ports
        ]


async def answers(accelerator_type: str, folder: Path, cloud: Cloud, server: Server) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not is_free(PORT):  # noqa: ASYNC110 - what the node before has left goes with time
            await asyncio.sleep(0.2)
    node = cloud.make_node(accelerator_type)
    zone, node_id = node.name.split("/")[3], node.name.split("/")[-1]
    async with AsyncExitStack() as stack:
        workers = await cloud.log_in(node.name, stack)
        laid_down = [lay_down(cloud, node_id, worker_id) for worker_id in range(len(workers))]
        chips = Path(await said(workers[0], "printf %s $EMULATED_TPU"))
        show_chips(folder, accelerators.accelerator(accelerator_type), chips / "dev")
        holders = [await hold(worker, "EMULATED_TPU_DEV=/dev" if at == 0 else "") for at, worker in enumerate(workers)]
        rest = await measured(server, zone, node_id, accelerator_type)
        top = json.loads(await output(sys.executable, "-m", "jupyter_tpu.cli", "top", node_id, "--json"))
        shown = [await asyncio.to_thread(tpu_info)]
        for worker, before in zip(workers[1:], holders, strict=False):
            await end(before)
            async with passed_on(int(await said(worker, "printf %s $TPU_RUNTIME_METRICS_PORTS"))):
                shown.append(await asyncio.to_thread(tpu_info))
    cloud.client.delete_node(name=node.name).result(timeout=60)
    return {"laid_down": laid_down, "rest": rest, "top": top, "tpu_info": shown}


def lay_down(cloud: Cloud, node_id: str, worker_id: int) -> dict[str, Any]:
    """Numbers that differ from chip to chip and from worker to worker."""
    metrics = {
        "duty_percent": [10.25 * (chip + 1) + worker_id for chip in range(8)],
        "memory_percent": [6.25 * (device + 1) + 25 * worker_id for device in range(8)],
    }
    cloud.control.lay_down_metrics(node_id, worker_id, **metrics)
    return metrics


async def said(worker: asyncssh.SSHClientConnection, command: str) -> str:
    return str((await worker.run(command, check=True)).stdout)


async def hold(worker: asyncssh.SSHClientConnection, variable: str) -> asyncssh.SSHClientProcess[str]:
    process = await worker.create_process(f"{variable} emulated-tpu hold")
    line = await process.stdout.readline()
    assert "holding" in line, await process.stderr.read()
    return process


async def end(holder: asyncssh.SSHClientProcess[str]) -> None:
    holder.stdin.write_eof()
    await holder.wait()


async def output(*argv: str) -> str:
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0, argv
    return out.decode()


@asynccontextmanager
async def passed_on(port: int) -> AsyncIterator[None]:
    """The port that tpu-info knows leads to this one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async with asyncio.timeout(PATIENCE_S):
        while listens(PORT):  # noqa: ASYNC110 - by the first worker, for a moment after its holder
            await asyncio.sleep(0.05)
    async with await asyncio.start_server(serve, "127.0.0.1", PORT, reuse_port=True):
        yield


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


# -- the Jupyter server


class Server:
    """A real one; it ends with this pid namespace."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token

    def get(self, route: str) -> Any:
        """The answer; None for a refusal."""
        request = urllib.request.Request(f"{self._url}{route}", headers={"Authorization": f"token {self._token}"})
        try:
            with _OPENER.open(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return None


def start_server(folder: Path) -> Server:
    token = secrets.token_hex(8)
    options = ("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.allow_root=True")
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *options],
            env={**os.environ, "JUPYTER_TOKEN": token},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    info = folder / "runtime" / f"jpserver-{process.pid}.json"
    end = time.monotonic() + PATIENCE_S
    while not (info.exists() and info.stat().st_size and listens(json.loads(info.read_text())["port"])):
        assert process.poll() is None, (folder / "server.log").read_text()
        assert time.monotonic() < end, (folder / "server.log").read_text()
        time.sleep(0.1)
    return Server(json.loads(info.read_text())["url"], token)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def measured(server: Server, zone: str, node_id: str, accelerator_type: str) -> Any:
    """What the REST API says once it has heard of all chips of this node, and no more of the last one of its name."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            view = await asyncio.to_thread(server.get, f"jupyter-tpu/v1/nodes/{zone}/{node_id}/metrics")
            is_of_now = view and view["is_complete"] and view["accelerator_type"] == accelerator_type
            if is_of_now and all(worker["sample"]["state"] == "measured" for worker in view["workers"]):
                return view
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
