"""Runtime metrics that a test sets for a worker, instead of measured ones.

They are stored in the folder with the chips' device files. The process that serves metrics reads them on each call. The
real libtpu sometimes reports invalid values or hangs, and a script can imitate this.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.emulator.resources import fields

LIES: Mapping[str, str] = {
    "nan": "the duty cycle of every chip is NaN",
    "missing": "every second device is left out",
    "hang": "no call is answered",
}
_FILE = "runtime_metrics.json"
_MOST = 64  # maximum number of values per metric; more than any worker's devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The values that a worker reports.

    A metric with an empty list is measured. If a list is too short, its values are repeated for further devices.

    Attributes:
        memory_percent: used share of the memory of each device.
        lie: the wrong behaviour to imitate: one of `LIES`, or empty.
    """

    duty_percent: tuple[float, ...] = ()
    memory_percent: tuple[float, ...] = ()
    bandwidth_percent: tuple[float, ...] = ()
    idle_s: tuple[float, ...] = ()
    lie: str = ""

    def of(self, name: str, devices: Iterable[int]) -> Iterator[tuple[int, float]]:
        """Yield the device and value of a scripted metric."""
        values = (math.nan,) if self.lie == "nan" and name == "duty_percent" else getattr(self, name)
        for place, device in enumerate(devices):
            yield device, values[place % len(values)]


def _numbers(value: object) -> tuple[float, ...]:
    found = value if isinstance(value, list) else [value]
    if not 1 <= len(found) <= _MOST:
        raise ValueError(f"{len(found)} numbers were given; use 1 to {_MOST}")
    return tuple(fields.difference(each) for each in found)


def _lie(value: object) -> str:
    if value not in LIES:
        raise ValueError(f"{str(value)[:40]!r} is not one of {', '.join(LIES)}")
    return str(value)


CHECKS: Mapping[str, fields.Check] = {
    "duty_percent": _numbers,
    "memory_percent": _numbers,
    "bandwidth_percent": _numbers,
    "idle_s": _numbers,
    "lie": _lie,
}


def write_script(folder: Path, script: Script | None) -> None:
    """Store a metrics script for the chips in a folder; None removes it, so that metrics are measured again."""
    path = folder / _FILE
    if script is None:
        path.unlink(missing_ok=True)
        return
    # the service may read the file at any time, so it must never be partly written
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(script)), encoding="utf-8")
    draft.replace(path)


def read_script(folder: Path) -> Script | None:
    """Return the script for the chips in a folder, or None."""
    try:
        data: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    lie = data.pop("lie")
    return Script(lie=lie, **{name: tuple(values) for name, values in data.items()})
