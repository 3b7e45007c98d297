"""``jupyter tpu emulator record``: record the requests and responses of a real session."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

from jupyter_tpu.emulator.cli.stop_signals import stop_event
from jupyter_tpu.emulator.recording.cases import Case
from jupyter_tpu.emulator.recording.recording_proxy import (
    LARGEST_BODY_BYTES,
    Recording,
    RecordingProxy,
    UpstreamRefused,
    checked_upstream,
)
from jupyter_tpu.emulator.transport.ports import LOOPBACK
from jupyter_tpu.emulator.transport.rest_server import refuse_browsers
from jupyter_tpu.standard_streams import write_now

_VARIABLES = {
    "tpu.googleapis.com": ("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", "/"),
    "compute.googleapis.com": ("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "/compute/v1/"),
    "cloudquotas.googleapis.com": ("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS", "/"),
    "serviceusage.googleapis.com": ("CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE", "/"),
}
"""The environment variable that sets the address of a service for gcloud, and the path to append to the address."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command ``record``."""
    options = argparse.ArgumentParser(
        prog="jupyter tpu emulator record",
        description="Record your own session with Google's services as cases for `replay-check` and our tests. A "
        "proxy on loopback forwards each request and writes it to a separate file.",
        epilog="Your credentials pass through and are not stored. Placeholders replace project ids and numbers, "
        "email and IP addresses, SSH keys, values of metadata and similar data. Names of nodes, labels "
        "and descriptions are kept, so check the files before you share them. Only REST is recorded, not "
        "gRPC (which jupyter_tpu uses). The requests are real, and so are their costs.",
    )
    options.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder for the cases")
    options.add_argument(
        "--upstream",
        nargs="+",
        default=["https://tpu.googleapis.com"],
        metavar="URL",
        help="services to record, each on its own port (default: https://tpu.googleapis.com)",
    )
    options.add_argument(
        "--port",
        type=int,
        default=0,
        help="port for the first service; the other services use the next ports (default: any free ports)",
    )
    options.add_argument(
        "--host", default=LOOPBACK, help=f"must be {LOOPBACK}, because the proxy does not authenticate callers"
    )
    options.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    return options


def main(argv: Sequence[str]) -> int:
    """Run the recording proxies until SIGTERM, SIGINT or SIGHUP; return the exit status."""
    options = parser().parse_args(argv)
    if options.host != LOOPBACK:
        return _complain(f"The recorder listens on {LOOPBACK} only, because it does not authenticate callers.", 2)
    recording = Recording(options.out, _report_case, _report)
    try:
        # check all addresses before creating the folder, so that a typo leaves nothing behind
        upstreams = [checked_upstream(each) for each in dict.fromkeys(options.upstream)]
        recording.begin()
        asyncio.run(_serve(upstreams, recording, options))
    except UpstreamRefused as error:
        return _complain(f"Cannot record: {error}.", 2)
    except OSError as error:
        return _complain(f"The recorder cannot start: {error}", 1)
    # Python raises this for a port above 65535
    except OverflowError:
        return _complain(f"--port {options.port} is not a port.", 2)
    return 0


async def _serve(upstreams: Sequence[str], recording: Recording, options: argparse.Namespace) -> None:
    stopping = stop_event()
    async with contextlib.AsyncExitStack() as stack:
        # use consecutive ports, so that one option sets them all
        ports = [options.port + index if options.port else 0 for index in range(len(upstreams))]
        served = {
            upstream: await stack.enter_async_context(serving(upstream, recording, port))
            for upstream, port in zip(upstreams, ports, strict=True)
        }
        _announce(served, options)
        await stopping.wait()


@contextlib.asynccontextmanager
async def serving(upstream: str, recording: Recording, port: int) -> AsyncIterator[str]:
    """Run a recording proxy on a loopback port (0 for any port) and yield its address. Raises OSError."""
    proxy = RecordingProxy(upstream, recording)
    app = web.Application(middlewares=[refuse_browsers], client_max_size=LARGEST_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    # use one session for all requests to reuse connections to Google
    await proxy.open()
    try:
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, port).start()
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        await proxy.close()


def _announce(served: dict[str, str], options: argparse.Namespace) -> None:
    shown = json.dumps({"out": str(options.out), "services": served}) if options.json else _for_people(served, options)
    write_now(f"{shown}\n")


def _for_people(served: dict[str, str], options: argparse.Namespace) -> str:
    lines = [f"Recording to {options.out}. These requests are real, and so are their costs."]
    for upstream, address in served.items():
        variable, path = _VARIABLES.get(str(urlsplit(upstream).hostname), ("", "/"))
        lines.append(f"  {upstream}  {address}")
        lines += [f"    export {variable}={address}{path}"] if variable else []
    return "\n".join([*lines, "Press Ctrl-C to end."])


def _report_case(case: Case) -> None:
    _report(f"{case.name}: {case.status}")


def _report(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _complain(text: str, status: int) -> int:
    _report(text)
    return status
