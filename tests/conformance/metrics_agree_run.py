"""Runs in namespaces of its own: an emulator, a Jupyter server, a browser, and nodes with all who tell of their load.

Arguments: a folder, Chromium, and accelerator types. What the chips are to tell is laid down, other numbers for each
worker, and is changed once. The REST API, the panel and the widget are watched from before the first numbers until they
show the second; then `jupyter tpu top` and the unmodified tpu-info say what they see. Prints one JSON object: for each
type what was seen. See `tpu_info_run` for how tpu-info is made to look at emulated chips; it knows only one port, so
each worker's metrics are passed on there in turn.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import asyncssh
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from metrics_agree_page import Lab, opened_lab
from metrics_agree_samples import FIRST, THEN, Words, numbers, panel_words, rows, rows_of_sample, widget_words
from tpu_info_run import make_node, raise_loopback, show_chips, start_emulator, tpu_info

from jupyter_tpu.accelerators import accelerator
from jupyter_tpu.cli.demo.folder import DemoFolder
from jupyter_tpu.emulator.control.client import EmulatorControl
from jupyter_tpu.ssh import UserKey

PATIENCE_S = 120
PORT = 8431
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def main(folder: Path, chromium: str, types: list[str]) -> None:
    raise_loopback()
    (folder / "home").mkdir()
    demo = DemoFolder(folder / "demo")
    demo.prepare()
    os.environ.update(demo.environment(), HOME=str(folder / "home"), XDG_RUNTIME_DIR=str(folder))
    print(json.dumps(asyncio.run(all_seen(types, folder, demo.notebooks, chromium))))  # noqa: T201 - what it is for


async def all_seen(types: list[str], folder: Path, notebooks: Path, chromium: str) -> dict[str, Any]:
    ready = start_emulator(folder / "state")
    os.environ.update(JUPYTER_TPU_ENDPOINT=ready["grpc"], JUPYTER_TPU_PROJECT=ready["project"])
    cloud = Cloud(ready["rest"], UserKey.load_or_create(Path(os.environ["JUPYTER_TPU_DATA_DIR"]) / "ssh"))
    server = start_server(folder, notebooks)
    nodes = [await asyncio.to_thread(cloud.make_node, each) for each in types]
    async with opened_lab(chromium, server.page, notebooks) as lab:
        return {
            each: await seen(each, node, folder, cloud, server, lab) for each, node in zip(types, nodes, strict=True)
        }


async def seen(kind: str, node: tpu_v2.Node, folder: Path, cloud: Cloud, server: Server, lab: Lab) -> dict[str, Any]:
    zone, node_id = node.name.split("/")[3], node.name.split("/")[-1]
    async with AsyncExitStack() as stack:
        workers = await cloud.log_in(node.name, stack)
        lay_down(cloud, node_id, FIRST, len(workers))
        for worker in workers:
            await hold(worker)
        panel = await lab.watch_panel(node_id)
        widget = await lab.watch_widget(node_id, await kernel_name(server, zone, node_id))
        faces = Faces(kind, Rest(server, f"jupyter-tpu/v1/nodes/{zone}/{node_id}/metrics"), panel, widget)
        await faces.show(FIRST)
        lay_down(cloud, node_id, THEN, len(workers))
        await faces.show(THEN)
        told = await faces.seen()
        await lab.picture(folder / f"{kind}.png")
        await lab.close_panel(node_id)
        top = json.loads(await output(sys.executable, "-m", "jupyter_tpu.cli", "top", node_id, "--json"))
        show_chips(folder / kind, accelerator(kind), Path(await said(workers[0], "printf %s $EMULATED_TPU")) / "dev")
        return {**told, "top": top, "tpu_info": [await tpu_info_of(worker) for worker in workers]}


def lay_down(cloud: Cloud, node_id: str, turn: int, workers: int) -> None:
    for worker_id in range(workers):
        cloud.control.set_metrics(node_id, worker_id, **numbers(turn, worker_id))


class Seen(Protocol):
    async def seen(self) -> list[Any]:
        """One reading after another, the last is of now."""


class Rest:
    """What the REST API says, each time that it is asked."""

    def __init__(self, server: Server, route: str) -> None:
        self._server = server
        self._route = route
        self._seen: list[Words] = []

    async def seen(self) -> list[Words]:
        view = await asyncio.to_thread(self._server.get, self._route)
        samples = [worker["sample"] for worker in view["workers"]] if view else []
        self._seen.append([rows_of_sample(sample) if sample else [] for sample in samples])
        return self._seen


@dataclass(frozen=True, slots=True)
class Faces:
    """Those who tell of a node of some type, and are watched."""

    kind: str
    rest: Seen
    panel: Seen
    widget: Seen

    async def show(self, turn: int) -> None:
        workers = range(accelerator(self.kind).workers)
        await until(self.rest, [rows(self.kind, turn, each) for each in workers])
        await until(self.panel, panel_words(self.kind, turn))
        await until(self.widget, widget_words(self.kind, turn))

    async def seen(self) -> dict[str, Any]:
        return {name: await getattr(self, name).seen() for name in ("rest", "panel", "widget")}


async def until(face: Seen, wanted: Words) -> None:
    """Until it shows that."""
    end = time.monotonic() + PATIENCE_S
    while (shown := (await face.seen())[-1]) != wanted:
        assert time.monotonic() < end, f"It shows {shown}, not {wanted}."
        await asyncio.sleep(0.1)


class Cloud:
    """The emulated cloud, and the key that opens its workers."""

    def __init__(self, rest: str, key: UserKey) -> None:
        self.control = EmulatorControl(rest)
        self.key = key
        self.client = tpu_v2.TpuClient(
            transport="rest", credentials=AnonymousCredentials(), client_options={"api_endpoint": rest}
        )

    def make_node(self, kind: str) -> tpu_v2.Node:
        return make_node(self.client, accelerator(kind), f"{getpass.getuser()}:{self.key.public_line}", f"n-{kind}")

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


async def said(worker: asyncssh.SSHClientConnection, command: str) -> str:
    return str((await worker.run(command, check=True)).stdout)


async def hold(worker: asyncssh.SSHClientConnection) -> None:
    """The chips, until the connection ends."""
    process = await worker.create_process("emulated-tpu hold")
    line = await process.stdout.readline()
    assert "holding" in line, await process.stderr.read()


async def output(*argv: str) -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode == 0, (argv, out, err)
    return out.decode()


async def tpu_info_of(worker: asyncssh.SSHClientConnection) -> str:
    async with passed_on(int(await said(worker, "printf %s $TPU_RUNTIME_METRICS_PORTS"))):
        return await asyncio.to_thread(tpu_info)


@asynccontextmanager
async def passed_on(port: int) -> AsyncIterator[None]:
    """The port that tpu-info knows leads to this one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", PORT):
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
    """JupyterLab's; it ends with this pid namespace."""

    def __init__(self, url: str, token: str) -> None:
        self.page = f"{url}lab?token={token}"
        self._url = url
        self._token = token

    def get(self, route: str) -> Any:
        """The answer; None for a refusal."""
        request = urllib.request.Request(f"{self._url}{route}", headers={"Authorization": f"token {self._token}"})
        try:
            with _OPENER.open(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return None


def start_server(folder: Path, notebooks: Path) -> Server:
    token = secrets.token_hex(8)
    options = ("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.allow_root=True", "--no-browser")
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options, "--expose-app-in-browser"],
            env={**os.environ, "JUPYTER_TOKEN": token},
            cwd=notebooks,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    info = Path(os.environ["JUPYTER_RUNTIME_DIR"]) / f"jpserver-{process.pid}.json"
    end = time.monotonic() + PATIENCE_S
    while not (info.exists() and info.stat().st_size and listens(json.loads(info.read_text())["port"])):
        assert process.poll() is None, (folder / "server.log").read_text()
        assert time.monotonic() < end, (folder / "server.log").read_text()
        time.sleep(0.1)
    return Server(json.loads(info.read_text())["url"], token)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def kernel_name(server: Server, zone: str, node_id: str) -> str:
    """The kernelspec of a node, once it is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            view = await asyncio.to_thread(server.get, "jupyter-tpu/v1/nodes")
            for node in view["nodes"] if view else []:
                if (node["zone"], node["node_id"]) == (zone, node_id) and node["kernelspec"]:
                    return str(node["kernelspec"])
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
