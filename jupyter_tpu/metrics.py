"""Samples of a worker's chips, host and TPU processes: the records that the agent and the user's machine share.

Start with `Sample`. This module is pure and runs on Python 3.10. An unknown value is None, and its reason is stored
with it. Chips and cores have libtpu's ids, which are numbered across all workers of a slice, so the first id of a
worker may not be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from jupyter_tpu.errors import Text, plain

MEASURED, IDLE, UNKNOWN = "measured", "idle", "unknown"
MOST_IDS = 64
"""Maximum number of cores to read from one worker: more than any TPU VM has. Limits what a broken agent can send."""

# Maximum length of a text from another machine, so that it can't fill a page or a terminal.
_LONGEST_TEXT = 500
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One chip. `duty_percent` is the share of time in which the chip was computing; None if unknown."""

    chip: int
    duty_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """One JAX device: a TensorCore on v2 and v3, a whole chip on v4 and later. Unknown values are None.

    Attributes:
        chip: id of the chip that contains the core.
        idle_s: seconds since the core last computed.
        queued: number of programs that wait for the core.
    """

    core: int
    chip: int
    tensorcore_percent: float | None = None
    hbm_used_bytes: int | None = None
    hbm_total_bytes: int | None = None
    hbm_bandwidth_percent: float | None = None
    idle_s: float | None = None
    queued: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMetric:
    """How to validate and display one value of a core.

    Attributes:
        name: the value's field in `Core`.
        title: the value's label in texts and column headers.
        kind: kind of the value. A value of kind `capacity` is the maximum of another value, in bytes; it has no
            separate column.
        served_as: the value's name in libtpu, as in tpu-info 0.14.2.
    """

    name: str
    title: str
    kind: Literal["percent", "bytes", "capacity", "seconds", "count"]
    served_as: str


CORE_METRICS = (
    # Not available from libtpu's service: this is the name in libtpu's SDK.
    CoreMetric(name="tensorcore_percent", title=Text("TensorCore"), kind="percent", served_as="tensorcore_util"),
    CoreMetric(name="hbm_used_bytes", title=Text("HBM"), kind="bytes", served_as="tpu.runtime.hbm.memory.usage.bytes"),
    CoreMetric(
        name="hbm_total_bytes", title=Text("HBM total"), kind="capacity", served_as="tpu.runtime.hbm.memory.total.bytes"
    ),
    CoreMetric(
        name="hbm_bandwidth_percent",
        title=Text("HBM bandwidth"),
        kind="percent",
        served_as="tpu.runtime.hbm.utilization.percent",
    ),
    CoreMetric(
        name="idle_s", title=Text("idle"), kind="seconds", served_as="tpu.runtime.tensorcore.idle_duration.seconds"
    ),
    CoreMetric(name="queued", title=Text("queued"), kind="count", served_as="hlo.queue.size.gauge"),
)
"""The values of a `Core`, in the order of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The TPU VM that contains the chips. The disk values are for the disk that contains the home folder."""

    cpus: int | None = None
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_used_bytes: int | None = None
    disk_total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A TPU process: a process that has the chips open or holds libtpu's lock.

    Attributes:
        user: Unix user of the process.
        command: command line of the process, shortened.
        kernel_id: the process's own kernel id, or the id of the kernel that started it; empty for other processes.
        notebook: path of the kernel's notebook; empty if there is none.
        since: when the process started to use the chips (Unix seconds); None if unknown.
        is_own_user: whether the process runs as the same Unix user as the agent.
        is_kernel: whether the process is the kernel itself and not a process that the kernel started.
    """

    pid: int
    user: str = ""
    command: str = ""
    kernel_id: str = ""
    notebook: str = ""
    since: float | None = None
    is_own_user: bool = False
    is_kernel: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> Text:
        """The process and its owner, for display."""
        notebook = plain(self.notebook)
        if self.is_kernel and notebook:
            return Text("process {pid}, the kernel of the notebook {notebook}", pid=self.pid, notebook=notebook)
        known = Text("process {pid}", pid=self.pid)
        if self.command:
            known = Text("process {pid} ({command})", pid=self.pid, command=plain(self.command))
        if not notebook:
            return known
        return Text("{process}, started by the kernel of the notebook {notebook}", process=known, notebook=notebook)

    @classmethod
    def from_json(cls, data: Any) -> Holder:
        """Rebuild a TPU process from the result of `dataclasses.asdict`; raises TypeError or ValueError for other data.

        Agents up to 0.1.0 do not send `is_kernel`; every process of a kernel then counts as the kernel.
        """
        names = ("user", "command", "kernel_id", "notebook")
        texts = {name: plain(data.get(name) or "", _LONGEST_TEXT) for name in names}
        since = number_or_none(data.get("since"))
        # Older agents don't send this field.
        is_kernel = data.get("is_kernel", bool(texts["kernel_id"])) is True
        is_own_user = data.get("is_own_user") is True
        return cls(pid=int(data["pid"]), since=since, is_own_user=is_own_user, is_kernel=is_kernel, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A worker's metrics at one time.

    Attributes:
        at: when the sample was taken (Unix seconds by the worker's clock).
        state: ``measured``, ``unknown``, or ``idle``: no process uses the chips, and libtpu serves metrics only from
            within such a process.
        reason: why the state is not ``measured``; empty if the state is ``measured``.
        duty_per: ``chip`` if one duty cycle covers several cores, else ``core``.
        unknown: why each unknown field is unknown, by field name. The key ``cores`` means that some cores are missing.
        holders: the TPU processes.
    """

    at: float
    state: str = UNKNOWN
    reason: str = ""
    duty_per: str = "chip"
    chips: tuple[Chip, ...] = ()
    cores: tuple[Core, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    host: Host = Host()
    holders: tuple[Holder, ...] = ()

    def unknown_lines(self, titles: Mapping[str, str]) -> Iterator[str]:
        """Yield one line per unknown field with the reason, for display. `titles` contains labels by field name."""
        for name, why in self.unknown.items():
            title = titles.get(name, name.replace("_", " "))
            is_partial = any(getattr(row, name, None) is not None for row in (*self.chips, *self.cores))
            if name == "cores":
                yield Text("{title}: {reason}", title=title, reason=why)
            elif is_partial:
                yield Text("{title}: partly unknown, {reason}", title=title, reason=why)
            else:
                yield Text("{title}: unknown, {reason}", title=title, reason=why)

    def to_json(self) -> dict[str, Any]:
        """Return the sample in the format of the agent and the REST API."""
        return {
            "at": self.at,
            "state": self.state,
            "reason": self.reason,
            "duty_per": self.duty_per,
            "chips": [asdict(chip) for chip in self.chips],
            "cores": [asdict(core) for core in self.cores],
            "unknown": dict(self.unknown),
            "host": asdict(self.host),
            "holders": [asdict(holder) for holder in self.holders],
        }

    @classmethod
    def from_json(cls, data: Any) -> Sample:
        """Create a sample from a `to_json` result that another machine sent. Shorten and sanitize its texts.

        Raises:
            TypeError, KeyError, ValueError, AttributeError: the data is not a sample.
        """
        state = data["state"]
        if state not in (MEASURED, IDLE, UNKNOWN):
            raise ValueError(f"{str(state)[:40]} is not a valid state of a sample")
        return cls(
            at=float(number_or_none(data["at"])),
            state=state,
            reason=plain(data["reason"], _LONGEST_TEXT),
            duty_per="core" if data["duty_per"] == "core" else "chip",
            chips=tuple(_read(Chip, row) for row in data["chips"][:MOST_IDS]),
            cores=tuple(_read(Core, row) for row in data["cores"][:MOST_IDS]),
            unknown={str(name)[:80]: plain(why, _LONGEST_TEXT) for name, why in data["unknown"].items()},
            host=_read(Host, data["host"]),
            holders=tuple(Holder.from_json(row) for row in data["holders"]),
        )


def _read(kind: Callable[..., Record], row: Mapping[str, Any]) -> Record:
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: number_or_none(row.get(name)) for name in names})


def number_or_none(value: Any) -> Any:
    """Return a finite number or None unchanged. Raises ValueError for any other value."""
    if value is None or (type(value) in (int, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{str(value)[:40]!r} is not a number")
