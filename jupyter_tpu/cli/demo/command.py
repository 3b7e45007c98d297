"""The command `demo`: run an emulated cloud and a JupyterLab that uses it, until Ctrl-C."""

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

from jupyter_tpu.cli.terminal import Progress, echo, note
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.i18n import _

if TYPE_CHECKING:
    from jupyter_tpu.cli.demo.folder import DemoFolder
    from jupyter_tpu.setup.child_process import Child
    from jupyter_tpu.setup.trial import EmulatedCloud


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# time limit of the start, long enough for a slow machine; the start normally takes seconds
_READY_WITHIN_S = 120.0
# how often to check for the file in which Jupyter Server writes its port; there is no event for it
_POLL_S = 0.05
# how many times to start JupyterLab if other programs take its port: two demos started at the same moment need two
# attempts
_LAB_STARTS = 5
# start of the last message that Jupyter Server prints if its port is taken
_PORT_TAKEN = "the Jupyter server could not be started because"
# packages that the demo and its notebook import in addition to our own dependencies
_NEEDED = ("jupyterlab", "aiohttp", "jax", "sklearn")


def run_demo(options: argparse.Namespace) -> int:
    """Run the demo in its folder until Ctrl-C."""
    from jupyter_tpu.cli.demo.folder import DemoFolder, default_folder

    _require_packages()
    folder = DemoFolder((options.dir or default_folder()).expanduser().resolve())
    # allow only one demo per folder, because two demos would overwrite each other's state
    with folder.locked():
        if options.reset:
            folder.reset()
        folder.prepare()
        asyncio.run(_until_signalled(_serve(folder, options)))
    echo(_("Stopped. The demo's nodes and notebooks are kept; `{command}` shows them again.", command=_command(folder)))
    return 0


def _command(folder: DemoFolder) -> str:
    """Return the command that restarts this folder's demo from any working directory."""
    from jupyter_tpu.cli.demo.folder import default_folder

    is_default = folder.root == default_folder().expanduser().resolve()
    return shlex.join(["jupyter", "tpu", "demo", *([] if is_default else ["--dir", str(folder.root)])])


def _require_packages() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(
            Text("The demo needs packages that are not installed: {missing}.", missing=", ".join(missing)),
            hint="Install them with `pip install 'jupyter-tpu[demo]'`.",
        )


async def _until_signalled(work: Awaitable[None]) -> None:
    """Run `work` until it is done or a signal cancels it; further signals don't interrupt its clean-up."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    left = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, left.set)
    leaving = asyncio.ensure_future(left.wait())
    await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if leaving.done():
        note(_("\nStopping …"))
        # the cancellation makes `_serve` clean up; `wait` does not raise, so further signals are ignored
        task.cancel()
        await asyncio.wait({task})
    leaving.cancel()
    if not task.cancelled():
        task.result()


async def _serve(folder: DemoFolder, options: argparse.Namespace) -> None:
    from jupyter_tpu.setup.child_process import running
    from jupyter_tpu.setup.trial import announced, emulator_argv

    progress = Progress()
    # the cloud and JupyterLab each take seconds to load, so start them together; JupyterLab waits for a line with the
    # address of the cloud
    progress.show(_("Starting the emulated cloud and JupyterLab …"))
    argv, log = emulator_argv(folder.cloud), folder.log("emulator")
    async with running(_("The emulated cloud"), argv, log=log, env=os.environ, answers=True) as emulator:
        ready = asyncio.ensure_future(announced(emulator))
        argv, log = _lab_argv(folder, options), folder.log("jupyterlab")
        for start in range(1, _LAB_STARTS + 1):
            async with running("JupyterLab", argv, log=log, env=folder.environment(), listens=True) as lab:
                cloud = await ready
                await lab.send_line(json.dumps(_variables(cloud)).encode() + b"\n")
                try:
                    server = await _lab_ready(lab, folder)
                except TpuError as error:
                    # another program took the port after Jupyter had found it free
                    if _PORT_TAKEN in error.raw and options.port is None and start < _LAB_STARTS:
                        continue
                    raise
                progress.end()
                _show_where(server, cloud, folder)
                await _until_one_ends(lab, emulator)
                return


def _variables(cloud: EmulatedCloud) -> dict[str, str]:
    """Return the environment variables that point JupyterLab's server to this cloud."""
    return {"JUPYTER_TPU_ENDPOINT": cloud.endpoint, "JUPYTER_TPU_PROJECT": cloud.project, **cloud.variables()}


def _lab_argv(folder: DemoFolder, options: argparse.Namespace) -> list[str]:
    argv = [sys.executable, "-m", "jupyter_tpu.cli.demo.jupyterlab"]
    # listen on this machine only, because anyone with the token gets a terminal as this user
    argv += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={folder.notebooks}"]
    if options.port is not None:
        argv.append(f"--ServerApp.port={options.port}")
    if options.no_browser:
        argv.append("--no-browser")
    if os.getuid() == 0:  # Jupyter needs this option to run as root, for example in a container
        argv.append("--allow-root")
    return [*argv, *options.passed_on]


async def _lab_ready(lab: Child, folder: DemoFolder) -> dict[str, Any]:
    """Wait until JupyterLab listens and return its server info (port, base_url, token)."""
    info = folder.runtime / f"jpserver-{lab.process.pid}.json"
    ended = asyncio.ensure_future(lab.process.wait())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN_S):
                return await _wait_for_server(info, lab, ended)
    finally:
        ended.cancel()
    raise lab.failure()


async def _wait_for_server(info: Path, lab: Child, ended: asyncio.Future[int]) -> dict[str, Any]:
    while not ended.done():
        # Jupyter Server writes its port to the file a moment before it listens, and exits if the port is taken by then
        if (server := _read_json(info)) and await lab.listens_on(int(server["port"])):
            return server
        await asyncio.wait({ended}, timeout=_POLL_S)
    raise TimeoutError


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; return an empty dict if the file is missing or incomplete."""
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return data


def _show_where(server: dict[str, Any], cloud: EmulatedCloud, folder: DemoFolder) -> None:
    echo(_("Emulated cloud: nothing here costs money, and no data leaves this machine."))
    echo(f"  Open:  http://127.0.0.1:{server['port']}{server['base_url']}lab?token={server['token']}")
    echo(_("  Try:   click “Example: digits” in the launcher, then “Create”"))
    # with a token file, the emulator requires the token in each request, but a browser can't send it
    ledger = (
        _("`jupyter tpu emulator ledger` in a terminal of this JupyterLab")
        if cloud.token_file
        else f"{cloud.address}/emulator/v1/ledger"
    )
    echo(_("  Costs: {ledger} (what the nodes would have cost)", ledger=ledger))
    echo(
        _(
            "  Fail:  use the failure simulator in the TPU panel, or run `jupyter tpu emulator` in a terminal of this "
            "JupyterLab"
        )
    )
    own = folder.environment()
    shared = {**_variables(cloud), **{name: own[name] for name in ("JUPYTER_DATA_DIR", "JUPYTER_TPU_DATA_DIR")}}
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in shared.items())
    echo(_("  Shell: for `jupyter tpu` in another terminal, run: export {variables}", variables=exports))
    echo(_("  Stop:  press Ctrl-C here"))
    echo(_("  State: {root} (kept; `{command} --reset` starts over)", root=folder.root, command=_command(folder)))


async def _until_one_ends(lab: Child, emulator: Child) -> None:
    """Wait for a process to exit. JupyterLab may be shut down from its menu; any other exit is an error."""
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
