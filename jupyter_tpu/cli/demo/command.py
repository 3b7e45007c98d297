"""`demo`: an emulated cloud and a JupyterLab that uses it, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import shlex
import signal
import sys
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_tpu.cli.terminal import Progress, note, say
from jupyter_tpu.errors import BadInput

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from jupyter_tpu.cli.demo.children import Child
    from jupyter_tpu.cli.demo.folder import DemoFolder

    Commands = _SubParsersAction[argparse.ArgumentParser]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READY_WITHIN_S = 120.0
# how often the file is looked for in which Jupyter Server says where it listens; there is no event for it
_LOOK_EVERY_S = 0.05
_NEEDED = ("jupyterlab", "aiohttp", "jax", "sklearn")


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "demo",
        help="run JupyterLab on an emulated cloud: free, on this machine only",
        description="Run JupyterLab on an emulated cloud: free, on this machine only. Arguments after -- go to it.",
    )
    parser.add_argument("--dir", type=Path, help="folder that keeps the demo's state (default: see the docs)")
    parser.add_argument("--port", type=int, help="port of JupyterLab (default: 8888 or the next free one)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--reset", action="store_true", help="forget the nodes and notebooks of earlier demos first")
    parser.set_defaults(run=run_demo, takes_more=True)


def run_demo(options: argparse.Namespace) -> int:
    from jupyter_tpu.cli.demo.folder import DemoFolder, default_folder

    _require_packages()
    folder = DemoFolder((options.dir or default_folder()).expanduser().resolve())
    with folder.held():
        if options.reset:
            folder.reset()
        folder.prepare()
        asyncio.run(_until_signalled(_serve(folder, options)))
    say(f"Stopped. The demo's nodes and notebooks are kept; `{_command(folder)}` shows them again.")
    return 0


def _command(folder: DemoFolder) -> str:
    """What runs the demo of this folder, wherever it is typed; another folder's demo is another one."""
    from jupyter_tpu.cli.demo.folder import default_folder

    is_default = folder.root == default_folder().expanduser().resolve()
    return shlex.join(["jupyter", "tpu", "demo", *([] if is_default else ["--dir", str(folder.root)])])


def _require_packages() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(
            f"The demo needs packages that are not installed: {', '.join(missing)}.",
            hint="Install them with: pip install 'jupyter-tpu[demo]'",
        )


async def _until_signalled(work: Awaitable[None]) -> None:
    """Run `work` to its end, or until the user wants to leave; it cleans up either way, however often they ask."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    left = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, left.set)
    leaving = asyncio.ensure_future(left.wait())
    await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if leaving.done():
        note("\nStopping …")
        task.cancel()
        await asyncio.wait({task})
    leaving.cancel()
    if not task.cancelled():
        task.result()


async def _serve(folder: DemoFolder, options: argparse.Namespace) -> None:
    from jupyter_tpu.cli.demo.children import running

    progress = Progress()
    progress.show("Starting the emulated cloud and JupyterLab …")
    argv, log = _emulator_argv(folder), folder.log("emulator")
    async with running("The emulated cloud", argv, log=log, env=os.environ, answers=True) as emulator:
        argv, log = _lab_argv(folder, options), folder.log("jupyterlab")
        async with running("JupyterLab", argv, log=log, env=folder.environment(), listens=True) as lab:
            cloud = await _emulator_ready(emulator)
            await lab.tell(json.dumps(_variables(cloud)).encode() + b"\n")
            server = await _lab_ready(lab, folder)
            progress.end()
            _say_where(server, cloud, folder)
            await _until_one_ends(lab, emulator)


def _emulator_argv(folder: DemoFolder) -> list[str]:
    return [sys.executable, "-m", "jupyter_tpu.emulator", "--json", "--link-faults", "--state-dir", str(folder.cloud)]


def _variables(cloud: dict[str, Any]) -> dict[str, str]:
    """What tells JupyterLab's server which cloud is its own."""
    return {
        "JUPYTER_TPU_ENDPOINT": cloud["grpc"],
        "JUPYTER_TPU_PROJECT": cloud["project"],
        "JUPYTER_TPU_EMULATOR": cloud["rest"],
        **({"JUPYTER_TPU_EMULATOR_TOKEN_FILE": cloud["token_file"]} if "token_file" in cloud else {}),
    }


def _lab_argv(folder: DemoFolder, options: argparse.Namespace) -> list[str]:
    argv = [sys.executable, "-m", "jupyter_tpu.cli.demo.jupyterlab"]
    argv += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={folder.notebooks}"]
    if options.port is not None:
        argv.append(f"--ServerApp.port={options.port}")
    if options.no_browser:
        argv.append("--no-browser")
    if os.getuid() == 0:  # as in a container; Jupyter refuses root unless told
        argv.append("--allow-root")
    return [*argv, *options.passed_on]


async def _emulator_ready(emulator: Child) -> dict[str, Any]:
    line = b""
    with suppress(TimeoutError):
        line = await asyncio.wait_for(emulator.first_line(), _READY_WITHIN_S)
    if not line:
        raise emulator.failure()
    ready: dict[str, Any] = json.loads(line)
    return ready


async def _lab_ready(lab: Child, folder: DemoFolder) -> dict[str, Any]:
    """What JupyterLab's server says of itself once it listens."""
    info = folder.runtime / f"jpserver-{lab.process.pid}.json"
    ended = asyncio.ensure_future(lab.process.wait())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN_S):
                return await _look_for(info, lab, ended)
    finally:
        ended.cancel()
    raise lab.failure()


async def _look_for(info: Path, lab: Child, ended: asyncio.Future[int]) -> dict[str, Any]:
    while not ended.done():
        # Jupyter Server writes its port down a moment before it listens there, and exits if it comes too late
        if (server := _read_json(info)) and await lab.listens_on(int(server["port"])):
            return server
        await asyncio.wait({ended}, timeout=_LOOK_EVERY_S)
    raise TimeoutError


def _read_json(path: Path) -> dict[str, Any]:
    """The file's object; empty while it is missing or half written."""
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return data


def _say_where(server: dict[str, Any], cloud: dict[str, Any], folder: DemoFolder) -> None:
    say("Emulated cloud: nothing here costs money, nothing leaves this machine.")
    say(f"  Open:  http://127.0.0.1:{server['port']}{server['base_url']}lab?token={server['token']}")
    say("  Try:   create a node in the TPU panel, open digits.ipynb on it, run all cells")
    # a browser has no token to send
    ledger = "`jupyter tpu emulator ledger` there" if "token_file" in cloud else f"{cloud['rest']}/emulator/v1/ledger"
    say(f"  Costs: {ledger} (what the nodes would have cost)")
    say("  Break: the button in the TPU panel, or `jupyter tpu emulator` in a terminal of this JupyterLab")
    say("  Stop:  Ctrl-C here")
    say(f"  State: {folder.root} (kept; `{_command(folder)} --reset` starts afresh)")


async def _until_one_ends(lab: Child, emulator: Child) -> None:
    """JupyterLab may be shut down from its own menu; any other end is a failure."""
    waits = {asyncio.ensure_future(child.process.wait()): child for child in (lab, emulator)}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
    if emulator.process.returncode is not None:
        raise emulator.failure()
    if lab.process.returncode:
        raise lab.failure()
