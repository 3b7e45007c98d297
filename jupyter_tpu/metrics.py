"""What is known of the chips of a worker at one moment: the records that agent and laptop share.

Pure, and valid for Python 3.10. What is not known is None, with the reason beside it. Ids are libtpu's and count over
all workers of a slice, so that those of a worker need not begin with 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from jupyter_tpu.errors import plain

MEASURED, IDLE, UNKNOWN = "measured", "idle", "unknown"
MOST_IDS = 64
"""More cores than any worker has."""

_LONGEST_TEXT = 500
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One chip; `duty_percent` is the share of time in which it computed."""

    chip: int
    duty_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """One device, as JAX counts them: a TensorCore of v2 and v3, a whole chip of later ones; None is not known.

    Attributes:
        chip: the chip that it is on.
        idle_s: for how long it has done nothing.
        queued: programs that wait for it.
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
class Host:
    """The machine around the chips; disk is that of the home folder."""

    cpus: int | None = None
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    disk_used_bytes: int | None = None
    disk_total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has the chips.

    Attributes:
        kernel_id: of the kernel that it is, or that started it; empty for none of ours.
        notebook: of that kernel.
        since: Unix seconds at which the process began; None where that is not known.
        is_own_user: whether it belongs to the user whom the agent serves.
        is_kernel: whether it is that kernel itself, and not something that the kernel has started.
    """

    pid: int
    user: str = ""
    command: str = ""
    kernel_id: str = ""
    notebook: str = ""
    since: float | None = None
    is_own_user: bool = False
    is_kernel: bool = False

    @classmethod
    def from_json(cls, data: Any) -> Holder:
        """The inverse of `dataclasses.asdict`; raises TypeError or ValueError for anything else.

        Agents up to 0.1.0 do not tell which are kernels: there all that belong to one count.
        """
        names = ("user", "command", "kernel_id", "notebook")
        texts = {name: plain(data.get(name) or "", _LONGEST_TEXT) for name in names}
        since = number_or_none(data.get("since"))
        is_kernel = data.get("is_kernel", bool(texts["kernel_id"])) is True
        is_own_user = data.get("is_own_user") is True
        return cls(pid=int(data["pid"]), since=since, is_own_user=is_own_user, is_kernel=is_kernel, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One moment of a worker.

    Attributes:
        at: Unix seconds by the worker's clock.
        state: ``measured``; ``idle``: no process has the chips, so nobody tells anything of them; ``unknown``.
        reason: why it is not measured.
        duty_per: ``chip`` where one duty cycle stands for several cores, else ``core``.
        unknown: why a field is not known, by the field's name; ``cores`` where some are missing.
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
        """What is not known and why, in words, with these titles of fields."""
        for name, why in self.unknown.items():
            title = titles.get(name, name.replace("_", " "))
            is_partial = any(getattr(row, name, None) is not None for row in (*self.chips, *self.cores))
            how = f"{'partly ' if is_partial else ''}{UNKNOWN}, " if name != "cores" else ""
            yield f"{title}: {how}{why}"

    def to_json(self) -> dict[str, Any]:
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
        """The inverse of `to_json`, for what another machine says.

        Raises:
            TypeError, KeyError, ValueError, AttributeError: it is anything else.
        """
        state = data["state"]
        if state not in (MEASURED, IDLE, UNKNOWN):
            raise ValueError(f"{str(state)[:40]!r} is no state of a sample")
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
    """A finite number as it is; None for None; raises ValueError for anything else."""
    if value is None or (type(value) in (int, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{str(value)[:40]!r} is no number")
