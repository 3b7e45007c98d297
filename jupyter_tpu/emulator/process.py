"""Run the emulator as a process: ``jupyter tpu emulator``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from jupyter_tpu.emulator.access.callers import BY_TOKEN, BY_USER, Callers, callers, usual_access
from jupyter_tpu.emulator.cli.stop_signals import stop_event
from jupyter_tpu.emulator.control.client import ADDRESS_VARIABLE
from jupyter_tpu.emulator.control.routes import ControlRoutes
from jupyter_tpu.emulator.core import Cloud
from jupyter_tpu.emulator.services import table
from jupyter_tpu.emulator.ssh.embedded import start_embedded_server
from jupyter_tpu.emulator.ssh.proxied_server import behind_fault_proxy
from jupyter_tpu.emulator.ssh.system import SystemSshdMissing, find_sshd, system_server
from jupyter_tpu.emulator.store.database import StoreUnreadable
from jupyter_tpu.emulator.store.state_dir import TOKEN_FILE_VARIABLE, StateDirInUse, locked_state_dir
from jupyter_tpu.emulator.transport import discovery
from jupyter_tpu.emulator.transport.grpc_server import GrpcServer
from jupyter_tpu.emulator.transport.http_server import HttpServer
from jupyter_tpu.emulator.transport.ports import LOOPBACK, Ports, PortUnusable, chosen_ports, save_ports, saved_ports
from jupyter_tpu.emulator.transport.rest_front import Batches, google_front
from jupyter_tpu.emulator.transport.rest_server import (
    RestServer,
    caller_check,
    google_errors,
    refuse_browsers,
    token_check,
)
from jupyter_tpu.emulator.workers.image import Image, ImageBroken, make_bare, make_full
from jupyter_tpu.emulator.workers.workers import StartSshServer, Workers
from jupyter_tpu.files import close_new_files
from jupyter_tpu.standard_streams import write_now

_CANNOT_START = (ImageBroken, PortUnusable, StateDirInUse, StoreUnreadable, SystemSshdMissing, OSError)
_ANY_PORT = "default: the port of the last run on --state-dir, or any free one"


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of ``jupyter tpu emulator``."""
    options = argparse.ArgumentParser(
        prog="jupyter tpu emulator",
        description="Emulate Google Cloud TPU on this machine: gRPC and REST on loopback, and workers behind SSH.",
        epilog="Control a running emulator with `jupyter tpu emulator state`, `ledger`, `clock`, `preempt`, "
        "`stockout`, `capacity`, `quota`, `reserve`, `project`, `maintenance`, `fault` and `reset`; each "
        "has --help. Workers run as you, so other users of this machine are refused. On Linux the "
        "emulator checks the owner of each connection. On other systems, such as macOS, the emulator "
        "requires a token, which jupyter_tpu finds through the variable that the emulator prints.",
    )
    options.add_argument("--port", type=_port, default=0, help=f"port of the gRPC endpoint ({_ANY_PORT})")
    options.add_argument("--rest-port", type=_port, default=0, help=f"port of the REST and control APIs ({_ANY_PORT})")
    options.add_argument("--host", default=LOOPBACK, help=f"must be {LOOPBACK}: this machine only")
    options.add_argument("--state-dir", type=Path, help="folder that keeps nodes across restarts (default: a new one)")
    options.add_argument("--project", type=_project, default="demo-project", help="id of the emulated project")
    options.add_argument("--sshd", choices=("embedded", "system"), default="embedded", help="SSH server of the workers")
    options.add_argument(
        "--access",
        choices=(BY_USER, BY_TOKEN),
        default=usual_access(),
        help="who may use the emulator: your own user, or clients with the token from a file (default: user "
        "on Linux, else token)",
    )
    options.add_argument(
        "--require-auth",
        action="store_true",
        help="refuse calls without a bearer token, as Google does (any token is accepted)",
    )
    options.add_argument("--link-faults", action="store_true", help="let `emulator fault link` break links to workers")
    options.add_argument(
        "--time-scale",
        type=_scale,
        help="virtual seconds per real second (default: as in the last run on --state-dir, or 10)",
    )
    options.add_argument(
        "--show-time",
        action="store_true",
        help="send virtual time with each response, so that jupyter_tpu counts costs as the emulator's ledger does",
    )
    options.add_argument(
        "--worker-python", type=Path, default=Path(sys.executable), help="Python that workers have on their PATH"
    )
    options.add_argument(
        "--worker-image",
        choices=("full", "bare"),
        default="full",
        help="full: python3 with its packages; bare: python3 without packages, and no uv",
    )
    options.add_argument(
        "--runtime-metrics-port",
        type=_port,
        default=0,
        help="first port to try for a worker's runtime metrics; tpu-info reads 8431 (default: any free one)",
    )
    options.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    options.add_argument("--verbose", action="store_true", help="log events to standard error")
    return options


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError("must be at most 65535, or 0 for any free port")
    return value


def _project(text: str) -> str:
    if not re.fullmatch(r"([a-z0-9.-]+:)?[a-z]([a-z0-9-]*[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a project id: lower-case letters, digits and hyphens")
    return text


def _scale(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100_000:  # at this scale, a day of virtual time takes less than a second; use a jump for more
        raise argparse.ArgumentTypeError("must be more than 0 and at most 100000")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the emulator until SIGTERM, SIGINT or SIGHUP; return the exit status."""
    options = parser().parse_args(argv)
    close_new_files()
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, stream=sys.stderr)
    # asyncssh logs every connection and channel at INFO
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    if options.host != LOOPBACK:
        return _complain(f"The emulator listens on {LOOPBACK} only: its clients run programs as you.", 2)
    try:
        asyncio.run(_serve(options))
    except _CANNOT_START as error:
        return _complain(f"The emulator cannot start: {error}", 1)
    return 0


def _complain(text: str, status: int) -> int:
    sys.stderr.write(f"{text}\n")
    return status


async def _serve(options: argparse.Namespace) -> None:
    stopping = stop_event()
    # hold the lock until all workers are down
    with locked_state_dir(options.state_dir) as state_dir:
        workers = Workers(
            state_dir / "w",
            _image(options, state_dir),
            _door(options),
            metrics_port=options.runtime_metrics_port,
        )
        cloud = Cloud(
            project=options.project,
            state_dir=state_dir,
            time_scale=options.time_scale,
            workers=workers,
            shows_time=options.show_time,
        )
        requested = Ports(grpc=options.port, rest=options.rest_port)
        known = callers(options.access, state_dir)
        async with serving(cloud, requested, known, require_auth=options.require_auth) as ports:
            _announce(options, ports, known.token_file)
            await stopping.wait()


def _image(options: argparse.Namespace, state_dir: Path) -> Image:
    make = make_full if options.worker_image == "full" else make_bare
    python = options.worker_python.absolute()
    _require_python(python)
    return make(state_dir / "image", python)


def _require_python(path: Path) -> None:
    """Run the given Python once; otherwise a wrong path would only be noticed at the first login to a worker."""
    try:
        done = subprocess.run([path, "-I", "-S", "-c", "print('yes')"], capture_output=True, check=False)
    except OSError as error:
        raise ImageBroken(f"--worker-python {path} cannot be run: {error.strerror}") from error
    if done.stdout.strip() != b"yes":
        raise ImageBroken(f"--worker-python {path} is not a Python interpreter")


def _door(options: argparse.Namespace) -> StartSshServer:
    door = start_embedded_server if options.sshd == "embedded" else system_server(find_sshd())
    return behind_fault_proxy(door) if options.link_faults else door


@contextlib.asynccontextmanager
async def serving(
    cloud: Cloud, requested: Ports, known: Callers, *, require_auth: bool = False
) -> AsyncIterator[Ports]:
    """Serve gRPC, REST and the control API to the `known` callers.

    Stop everything at the end, including the workers.
    """

    # a function, because the control API can change this setting while the emulator runs
    def asks_for_token() -> bool:
        return require_auth or cloud.switches.asks_for_token

    # outermost first: google_errors formats the errors of all other middlewares
    middlewares = [google_errors, refuse_browsers, caller_check(known), google_front]
    middlewares.append(token_check(cloud, asks_for_token))
    # the order of the routes also matters: `RestServer` handles all remaining paths
    app = web.Application(middlewares=middlewares)
    ControlRoutes(cloud).add_to(app)
    Batches().add_to(app)
    discovery.add_to(app)
    table.add_to(app, cloud)
    RestServer(cloud).add_to(app)
    server = HttpServer(app)
    grpc_server = GrpcServer(cloud, asks_for_token, known)
    try:
        # clients remember the address, so a restart with the same folder should use the same ports
        chosen = chosen_ports(requested, saved_ports(cloud.store))
        await cloud.start()
        rest = await server.start(chosen.rest)
        cloud.workers.share_api(f"http://{LOOPBACK}:{rest}/")
        ports = Ports(grpc=await grpc_server.start(chosen.grpc), rest=rest)
        save_ports(cloud.store, ports)
        yield ports
    finally:
        await grpc_server.close()
        await server.close()
        await cloud.close()


def _announce(options: argparse.Namespace, ports: Ports, token_file: Path | None) -> None:
    ready: dict[str, Any] = {
        "grpc": f"{LOOPBACK}:{ports.grpc}",
        "rest": f"http://{LOOPBACK}:{ports.rest}",
        "pid": os.getpid(),
        "project": options.project,
        **({} if token_file is None else {"token_file": str(token_file)}),
    }
    text = json.dumps(ready) if options.json else _for_people(ready)
    write_now(f"{text}\n")


def _for_people(ready: dict[str, Any]) -> str:
    token = f"  export {TOKEN_FILE_VARIABLE}={shlex.quote(ready['token_file'])}\n" if "token_file" in ready else ""
    return (
        f"Emulated Cloud TPU of project {ready['project']} (nothing here costs money)\n"
        f"  gRPC  {ready['grpc']}\n"
        f"  REST  {ready['rest']}\n"
        "Use it with:\n"
        f"  export JUPYTER_TPU_ENDPOINT={ready['grpc']} JUPYTER_TPU_PROJECT={ready['project']}\n"
        f"  export {ADDRESS_VARIABLE}={ready['rest']}\n"
        f"{token}"
        "Press Ctrl-C to stop it and its workers."
    )
