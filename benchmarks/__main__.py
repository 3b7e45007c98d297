"""Run the measurements and print the tables: ``python -m benchmarks`` (see README.md)."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from benchmarks.tables import Results, report
from benchmarks.worker import LAUNCHER, NODE, Place, opened_place

OURS = f"tpu-{NODE}-us-central1-a"
_LOCAL = "python3"


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    results: Results = defaultdict(list)
    with opened_place(options.sshpyk) as place:
        transports = [_LOCAL, OURS, LAUNCHER, "ssh-mux", *(["sshpyk"] if options.sshpyk else [])]
        for transport in transports:  # before measuring, because the first contact installs the agent
            _run(place, "cold", transport, {})
        for repetition in range(options.repeats):
            for rtt_ms in options.rtt:
                _delay(place, rtt_ms)
                for transport in transports:
                    _measure(place, transport, rtt_ms, options, results)
            _print(f"repetition {repetition + 1} of {options.repeats} done")
        _interrupts(place, results)
    text = report(results, ours=OURS, local=_LOCAL)
    sys.stdout.write(text)
    if options.out:
        options.out.write_text(text)


def _measure(place: Place, transport: str, rtt_ms: int, options: argparse.Namespace, results: Results) -> None:
    if transport == _LOCAL and rtt_ms:
        return
    for measure, arguments in _cells(transport, options):
        place.hang_up()
        for name, value in _run(place, measure, transport, arguments).items():
            results[transport, rtt_ms, name].append(value)
        _print(f"{transport} at {rtt_ms} ms: {measure}")


def _cells(transport: str, options: argparse.Namespace) -> Iterator[tuple[str, Mapping[str, int]]]:
    # a forwarded kernel can't be restarted: only its ssh client would be, and the remote kernel would keep running
    yield "start", {"repeats": 3, "restarts": 0 if transport == "ssh-mux" else 3}
    yield from [("cold", {}), ("cold", {"imported": True})] * 2
    yield "latency", {"repeats": options.latency}
    yield "throughput", {"mib": options.mib}


def _interrupts(place: Place, results: Results) -> None:
    """Measure interrupts over a connection with 5 MB/s and 50 ms, with and without 100 MiB of waiting output."""
    _delay(place, 50)
    for queued_mib in (0, 100):
        if queued_mib:
            place.tpu("emulator", "fault", "link", NODE, "rate", "--kib-per-s", "4883")
        results[OURS, 50, f"interrupt_{queued_mib}_mib_s"] += _run(
            place, "interrupt", OURS, {"queued_mib": queued_mib}
        ).values()
    _delay(place, 0)


def _delay(place: Place, rtt_ms: int) -> None:
    place.tpu("emulator", "fault", "link", NODE, "clear")
    if rtt_ms:
        place.tpu("emulator", "fault", "link", NODE, "latency", "--ms", str(rtt_ms / 2))


def _run(place: Place, measure: str, transport: str, arguments: Mapping[str, int]) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cell", measure, transport, json.dumps(arguments)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # files instead of pipes, which a shared ssh connection in the background would keep open
        status = subprocess.run(command, env=place.environ, stdout=out, stderr=err, check=False).returncode
        printed, said = _content(out), _content(err)
    if status:
        _print(f"{transport} {measure} failed: {said[-2000:]}")
        return {}
    numbers: dict[str, float] = json.loads(printed.splitlines()[-1])
    return numbers


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rtt", type=int, nargs="+", default=[0, 50, 100], help="round trips of the path, in ms")
    parser.add_argument("--repeats", type=int, default=2, help="of everything, interleaved")
    parser.add_argument("--latency", type=int, default=1000, help="executions of 1+1; p99 of few is their worst")
    parser.add_argument("--mib", type=int, default=32, help="MiB of output")
    parser.add_argument("--sshpyk", type=Path, help="folder in which sshpyk is installed; without it, it is left out")
    parser.add_argument("--out", type=Path, help="write the tables there too")
    return parser


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
