"""What is laid down for the chips of a worker, and how those who tell of the chips put it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.accelerators import accelerator

FIRST, THEN = 0, 1
"""The two turns: the numbers are changed once."""
UNKNOWN = "unknown"
GIB = 2**30

Row = list[str]
Words = Any
"""Texts as a page shows them, in lists and objects of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as JAX counts them, by its numbers over the whole slice; `duty_percent` is that of its chip."""

    core: int
    chip: int
    used_gib: float
    total_gib: int
    duty_percent: float

    @property
    def row(self) -> Row:
        """Its number, memory in use and in all, in GiB, and duty cycle, as tpu-info writes them."""
        return [str(self.core), f"{self.used_gib:.2f}", f"{self.total_gib}.00", f"{self.duty_percent:.2f}"]


def numbers(turn: int, worker_id: int) -> dict[str, list[float]]:
    """Other ones for each chip, each device, each worker and each turn; in percent.

    They are exact in binary, so that a half is one and shows whether all round it alike.
    """
    first = {
        "duty_percent": [10 * (chip + 1) + 0.25 + worker_id for chip in range(8)],
        "memory_percent": [6.25 * (device + 1) + 25 * worker_id for device in range(8)],
    }
    then = {
        "duty_percent": [99.75 - 9 * chip - worker_id for chip in range(8)],
        "memory_percent": [96.875 - 6.25 * device - 25 * worker_id for device in range(8)],
    }
    return (first, then)[turn]


def devices(accelerator_type: str, turn: int, worker_id: int) -> list[Device]:
    kind = accelerator(accelerator_type)
    count, per_chip = kind.jax_devices // kind.workers, kind.jax_devices // kind.chips
    gib = kind.hbm_gib_total // kind.jax_devices
    laid_down = numbers(turn, worker_id)
    return [
        Device(
            core=worker_id * count + place,
            chip=(worker_id * count + place) // per_chip,
            used_gib=gib * laid_down["memory_percent"][place] / 100,
            total_gib=gib,
            duty_percent=laid_down["duty_percent"][place // per_chip],
        )
        for place in range(count)
    ]


def rows(accelerator_type: str, turn: int, worker_id: int) -> list[Row]:
    return [device.row for device in devices(accelerator_type, turn, worker_id)]


def rows_of_sample(sample: Any) -> list[Row]:
    """As `Device.row`; a device that is not known whole has a word in place of a number."""
    duty = {chip["chip"]: chip["duty_percent"] for chip in sample["chips"]}
    return [
        [
            str(core["core"]),
            *map(_two_digits, (_gib(core["hbm_used_bytes"]), _gib(core["hbm_total_bytes"]), duty.get(core["chip"]))),
        ]
        for core in sample["cores"]
    ]


def _two_digits(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _gib(value: int | None) -> float | None:
    return None if value is None else value / GIB


# -- the panel


def panel_words(accelerator_type: str, turn: int) -> Words:
    """The node in one line, then of each worker its chips."""
    workers = range(accelerator(accelerator_type).workers)
    found = [devices(accelerator_type, turn, worker_id) for worker_id in workers]
    places = [f" of worker {worker_id}" if len(workers) > 1 else "" for worker_id in workers]
    shown = [[_panel_chip(chip, where) for chip in _chips(each)] for each, where in zip(found, places, strict=True)]
    return [_panel_line(found), *shown]


def _panel_line(found: Sequence[Sequence[Device]]) -> str:
    every = [device for each in found for device in each]
    duties = {device.chip: device.duty_percent for device in every}.values()
    used, total = sum(device.used_gib for device in every), sum(device.total_gib for device in every)
    parts = [
        f"Duty {_percent(sum(duties) / len(duties))} on average",
        f"busiest chip {_percent(max(duties))}",
        f"HBM {used:.{0 if used >= 100 else 1}f} of {total} GiB",
        *([f"{len(found)} workers"] if len(found) > 1 else []),
    ]
    return " · ".join(parts)


def _panel_chip(chip: Sequence[Device], where: str) -> Words:
    """Its texts from above to below, then its bars as a screen reader has them."""
    name, duty = f"chip {chip[0].chip}{where}", chip[0].duty_percent
    word = "Duty" if len(chip) == 1 else "Chip duty"
    texts = [name, f"Chip {chip[0].chip}", word, _percent(duty)]
    bars = [f"{word} of {name}: {_percent(duty)}, {_rounded(duty)} of 100"]
    for device in chip:
        of, used = name, f"{device.used_gib:.1f} of {device.total_gib} GiB"
        if len(chip) > 1:
            of = f"core {device.core}{where}"
            texts.append(f"Core {device.core}")
        texts += ["HBM", used]
        bars.append(f"HBM of {of}: {used}, {_rounded(100 * device.used_gib / device.total_gib)} of 100")
    return [*texts, *bars]


def _percent(value: float) -> str:
    return f"{_rounded(10 * value) / 10:.1f} %"


def _rounded(value: float) -> int:
    """As browsers round: halves upwards."""
    return int(value + 0.5)


# -- the widget


def widget_words(accelerator_type: str, turn: int) -> Words:
    """The table of worker 0's `TpuMonitor`, row by row; a cell that spans several rows is in the first of them."""
    found = _chips(devices(accelerator_type, turn, worker_id=0))
    is_shared = len(found[0]) > 1
    head = ["Chip", "Core", "Duty cycle of the chip"] if is_shared else ["Chip", "Duty cycle"]
    return [[*head, "HBM", "Last 10 min"], *(row for chip in found for row in _widget_rows(chip))]


def _widget_rows(chip: Sequence[Device]) -> Words:
    rows = [[f"{device.used_gib:.2f} of {device.total_gib}.00 GiB"] for device in chip]
    duty = _percent(chip[0].duty_percent)
    if len(chip) > 1:
        rows = [[str(device.core), *row] for device, row in zip(chip, rows, strict=True)]
        rows[0].insert(1, duty)
    else:
        rows[0].insert(0, duty)
    return [[str(chip[0].chip), *rows[0], ""], *rows[1:]]


def _chips(found: Sequence[Device]) -> list[list[Device]]:
    """Devices by their chips."""
    numbers_of = sorted({device.chip for device in found})
    return [[device for device in found if device.chip == chip] for chip in numbers_of]


# -- what was seen one after the other


def turns(seen: Sequence[Words], wanted: Words) -> list[Words]:
    """What was seen without repetitions, and without moments at which something was not known and so not shown."""
    kept: list[Words] = []
    for words in seen:
        if _is_whole(words, wanted) and (not kept or words != kept[-1]):
            kept.append(words)
    return kept


def _is_whole(words: Words, wanted: Words) -> bool:
    """Whether it tells as much as what is wanted."""
    if isinstance(wanted, str):
        return UNKNOWN not in words
    return len(words) == len(wanted) and all(_is_whole(*pair) for pair in zip(words, wanted, strict=True))
