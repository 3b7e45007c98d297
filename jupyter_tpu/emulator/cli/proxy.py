"""``jupyter tpu emulator proxy``: a fault proxy in a separate process.

The proxy reads further faults from standard input, one JSON object per line, until a signal stops it.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from jupyter_tpu.emulator.cli.stop_signals import stop_event
from jupyter_tpu.emulator.network_faults.fault_proxy import FaultProxy
from jupyter_tpu.emulator.network_faults.fault_script import Moment, play, random_script, script_from_json
from jupyter_tpu.emulator.network_faults.proxied_connection import Address
from jupyter_tpu.emulator.network_faults.verbs import LinkFault, link_fault_from_json
from jupyter_tpu.standard_streams import write_now


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command ``proxy``."""
    options = argparse.ArgumentParser(
        prog="jupyter tpu emulator proxy",
        description="Forward a TCP port or Unix socket to another, and simulate network faults. To add faults later, "
        "write them to standard input, one JSON object per line.",
    )
    options.add_argument(
        "--listen",
        type=_own_address,
        required=True,
        metavar="ADDRESS",
        help="where the proxy listens: HOST:PORT on loopback (port 0: any free one) or unix:PATH",
    )
    options.add_argument(
        "--to",
        type=parsed_address,
        required=True,
        metavar="ADDRESS",
        help="where connections go: HOST:PORT or unix:PATH",
    )
    options.add_argument(
        "--fault",
        type=_fault,
        action="append",
        default=[],
        metavar="JSON",
        help='initial fault, such as \'{"verb": "latency", "ms": 25}\'; can be repeated',
    )
    options.add_argument(
        "--script", type=_script, default=[], metavar="FILE", help="JSON file of faults, each with a time"
    )
    options.add_argument("--seed", type=int, help="seed of a random script of faults")
    options.add_argument(
        "--every", type=float, default=5.0, metavar="S", help="with --seed: mean seconds between faults"
    )
    options.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    return options


def parsed_address(text: str) -> Address:
    """Parse ``HOST:PORT`` or ``unix:PATH``. Raises ArgumentTypeError."""
    if text.startswith("unix:"):
        return Path(text.removeprefix("unix:"))
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is neither HOST:PORT nor unix:PATH")
    return host.strip("[]") or "127.0.0.1", int(port)


def _own_address(text: str) -> Address:
    """Parse a loopback address. Others are rejected: connections through the proxy seem to come from this computer."""
    address = parsed_address(text)
    if not isinstance(address, Path) and not _is_loopback(address[0]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not on loopback, and the proxy does not authenticate callers: use 127.0.0.1:PORT or unix:PATH"
        )
    return address


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # another host name, which may resolve to any machine
        return False


def address_text(address: Address) -> str:
    """Format an address in the syntax of `parsed_address`."""
    return f"unix:{address}" if isinstance(address, Path) else f"{address[0]}:{address[1]}"


def _fault(text: str) -> LinkFault:
    try:
        return link_fault_from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def _script(path: str) -> list[Moment]:
    try:
        return script_from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {type(error).__name__}: {error}") from error


def main(argv: Sequence[str]) -> int:
    """Run the proxy until SIGTERM, SIGINT or SIGHUP; return the exit status."""
    options = parser().parse_args(argv)
    try:
        asyncio.run(_serve(options))
    except OSError as error:
        sys.stderr.write(f"The proxy cannot listen on {address_text(options.listen)}: {error.strerror or error}\n")
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    stopping = stop_event()
    proxy = FaultProxy(options.to, seed=options.seed or 0)
    proxy.listen(options.listen)
    # add the faults before printing the address, so that they affect every connection
    for fault in options.fault:
        proxy.apply(fault)
    _announce(options, proxy)
    tasks = _players(options, proxy)
    await stopping.wait()
    for task in tasks:
        task.cancel()
    # these tasks change the proxy's faults, so they must end before the proxy is closed
    await asyncio.gather(*tasks, return_exceptions=True)
    await proxy.close()


def _players(options: argparse.Namespace, proxy: FaultProxy) -> list[asyncio.Task[None]]:
    scripts = [options.script, *([] if options.seed is None else [random_script(options.seed, options.every)])]
    return [
        *(asyncio.ensure_future(play(proxy, script)) for script in scripts),
        asyncio.ensure_future(_read_input(proxy)),
    ]


async def _read_input(proxy: FaultProxy) -> None:
    """Apply faults from standard input, unless standard input is closed or is a file."""
    kind = os.fstat(0).st_mode
    # asyncio can only wait for pipes, sockets and terminals
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(0)):
        return
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    async for line in reader:
        _apply(proxy, line)


def _apply(proxy: FaultProxy, line: bytes) -> None:
    try:
        proxy.apply(link_fault_from_json(json.loads(line)))
    except (KeyError, TypeError, ValueError) as error:
        sys.stderr.write(f"not a valid fault: {line.decode(errors='replace').strip()}: {error}\n")


def _announce(options: argparse.Namespace, proxy: FaultProxy) -> None:
    ready = {"listen": address_text(proxy.address), "to": address_text(options.to)}
    text = json.dumps(ready) if options.json else f"{ready['listen']} → {ready['to']} (Ctrl-C ends it)"
    write_now(f"{text}\n")
