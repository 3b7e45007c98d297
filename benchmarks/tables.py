"""Format results as tables in Markdown, with the ratios and round trips that the documentation quotes."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence

from benchmarks.cpu import PARTS

Results = dict[tuple[str, int, str], list[float]]
"""The values of all repetitions, by transport, round-trip time in ms and name of the number."""

_SECONDS = ("cold_s", "imported_cold_s", "warm_s", "restart_s")
_COLD_CPU = ("cold_cpu_s", "imported_cold_cpu_s")
_TRIPS = ("trips_count", "imported_trips_count")
_MEMORY = ("first_mib", "further_mib")
_LATENCY = ("p50_s", "p90_s", "p99_s")
_THROUGHPUT = ("stdout_mib_s", "display_mib_s", "first_stdout_mib_s", "first_display_mib_s")
_CPU = {"cell": "`1+1`", "stdout": "MiB of stdout", "display": "MiB of display data"}
_COUNTED = "Cold start, in round trips as the fault proxy counts them"

_INTRODUCTION = """# Benchmarks

`make bench` writes this page; [its README](../../benchmarks/README.md) describes what is measured and how. The kernel,
agent, sshd, fault proxy and client shared {cores} cores; the machine's load was {load:.1f} at the end. All values are
medians of all repetitions. Compare values only within one run, and quote ratios and round trips, because absolute
speeds vary with the machine.
"""


def report(results: Results, *, ours: str, local: str) -> str:
    """Return all tables as one Markdown page."""
    names = {ours: "jupyter_tpu", local: "local ipykernel"}
    rtts = sorted({rtt for _, rtt, _ in results})
    transports = list(dict.fromkeys(transport for transport, _, _ in results))
    pages = [
        _INTRODUCTION.format(cores=os.cpu_count(), load=os.getloadavg()[0]),
        _table(results, transports, names, rtts, _SECONDS, "Start, in seconds to the first reply", 1, 3),
        _table(results, transports, names, rtts[:1], _COLD_CPU, "Cold start, CPU of this side in seconds", 1, 2),
        _table(results, transports, names, [rtt for rtt in rtts if rtt], _TRIPS, _COUNTED, 1, 0),
        _table(results, transports, names, rtts, _LATENCY, "`1+1`, in ms", 1000, 1),
        _table(results, transports, names, rtts, ("slow_per_1000",), "Of 1,000 × `1+1`, 38 ms or more over p50", 1, 0),
        *(_cpu(results, transports, names, what, of) for what, of in _CPU.items()),
        _table(results, transports, names, rtts, _THROUGHPUT, "Output, in MiB/s", 1, 0),
        _table(results, transports, names, rtts[:1], _MEMORY, "Memory on this side, in MiB", 1, 1),
        _ratios(results, ours, local, rtts),
        _interrupts(results, ours),
    ]
    return "\n".join(pages)


def _table(
    results: Results,
    transports: Sequence[str],
    names: dict[str, str],
    rtts: Sequence[int],
    numbers: Sequence[str],
    title: str,
    scale: float,
    digits: int,
) -> str:
    columns = [(number, rtt) for number in numbers for rtt in rtts]
    heads = [f"{_plain(number)}, RTT {rtt}" for number, rtt in columns]
    rows = [
        [names.get(transport, transport)]
        + [_shown(_median(results, transport, rtt, number), scale, digits) for number, rtt in columns]
        for transport in transports
    ]
    return f"## {title}\n\n{_markdown(['way', *heads], rows)}\n"


def _cpu(results: Results, transports: Sequence[str], names: dict[str, str], what: str, of: str) -> str:
    parts = [f"cpu_{what}_{part}_ms" for part in (*PARTS, "sum")]
    rows = [
        [names.get(transport, transport), *(_shown(_median(results, transport, 0, part), 1, 2) for part in parts)]
        for transport in transports
    ]
    return f"## CPU in ms for one {of}, RTT 0\n\n{_markdown(['way', *PARTS, 'sum'], rows)}\n"


def _ratios(results: Results, ours: str, local: str, rtts: Sequence[int]) -> str:
    """Return a table of ratios between jupyter_tpu and a local kernel."""
    rows = [[_plain(number), *_ratios_of(results, ours, local, number, rtts)] for number in (*_SECONDS, *_THROUGHPUT)]
    heads = ["difference", *(f"RTT {rtt}" for rtt in rtts)]
    return f"## jupyter_tpu against a local ipykernel\n\n{_markdown(heads, rows)}\n"


def _ratios_of(results: Results, ours: str, local: str, number: str, rtts: Sequence[int]) -> Iterator[str]:
    # a local kernel has no connection, so its warm start is also its cold start
    here = _median(results, local, 0, "warm_s" if number.endswith("cold_s") else number)
    for rtt in rtts:
        there = _median(results, ours, rtt, number)
        yield "" if there is None or not here else f"{there / here:.2f} ×"


def _interrupts(results: Results, ours: str) -> str:
    rows = [
        [f"{queued} MiB waiting", _shown(_median(results, ours, 50, f"interrupt_{queued}_mib_s"), 1000, 0)]
        for queued in (0, 100)
    ]
    return f"## Interrupt, RTT 50 ms, in ms\n\n{_markdown(['path of 5 MB/s', 'until the kernel has it'], rows)}\n"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _median(results: Results, transport: str, rtt: int, number: str) -> float | None:
    values = results.get((transport, rtt, number))
    return statistics.median(values) if values else None


def _shown(value: float | None, scale: float, digits: int) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"


def _plain(number: str) -> str:
    return number.rsplit("_", 1)[0].removesuffix("_mib").replace("_", " ")
