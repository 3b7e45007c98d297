"""The report of `%tpu_init`: a table of the devices, as text and as HTML.

Every value is escaped: names come from the environment and from drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.frameworks import TITLES
from jupyter_tpu.notebook.display import as_html
from jupyter_tpu.notebook.node.this_worker import ThisWorker

EMULATED = "emulated: CPU devices stand in for the chips, so speed and memory mean nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of the framework; `memory_bytes` is None if it is not known."""

    id: int
    kind: str
    memory_bytes: int | None = None

    @property
    def memory(self) -> str:
        """The size of its memory, such as ``16.0 GiB``."""
        return "unknown" if self.memory_bytes is None else f"{self.memory_bytes / 2**30:.1f} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The proof that a framework runs on the accelerator.

    Attributes:
        why: why ``auto`` chose this framework; empty if the user named it.
        remark: what the user should know about this framework; empty if nothing.
        warning: mismatched versions, or harmless warnings explained; empty if there are none.
        seconds: how long all of ``%tpu_init`` took.
    """

    worker: ThisWorker
    devices: tuple[Device, ...]
    proof: str
    versions: Mapping[str, str]
    framework: str = "jax"
    why: str = ""
    remark: str = ""
    warning: str = ""
    seconds: float = 0.0

    @property
    def headline(self) -> str:
        """The title, such as ``JAX is ready on 8 devices of v5litepod-8``."""
        count = "1 device" if len(self.devices) == 1 else f"{len(self.devices)} devices"
        on = f" of {self.worker.accelerator_type}" if self.worker.accelerator_type else ""
        return f"{TITLES[self.framework]} is ready on {count}{on}"

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Id, kind and memory of each device."""
        kind = "{} (emulated)" if self.worker.is_emulated else "{}"
        return tuple((str(each.id), kind.format(each.kind), each.memory) for each in self.devices)

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines below the table: the proof, the versions, and any remark and warning."""
        libraries = ", ".join(f"{name} {version or 'not installed'}" for name, version in self.versions.items())
        return (
            f"Verified in {self.seconds:.1f} s: {self.proof}.",
            f"Versions: {libraries}.",
            *([f"Chosen: {self.why}."] if self.why else []),
            *([f"Note: {self.remark}."] if self.remark else []),
            *([f"Warning: {self.warning}"] if self.warning else []),
        )

    def __str__(self) -> str:
        table = (("device", "kind", "memory"), *self.rows)
        widths = [max(len(row[column]) for row in table) for column in range(3)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        )
        title = f"{self.headline} ({EMULATED})" if self.worker.is_emulated else self.headline
        return "\n".join((title, *lines, *self.notes))

    def to_html(self) -> str:
        """Return the report as HTML, with every value escaped."""
        badge = f" <em>{as_html(EMULATED)}</em>" if self.worker.is_emulated else ""
        header = _html_row("th", ("device", "kind", "memory"))
        rows = "".join(_html_row("td", row) for row in self.rows)
        notes = "<br>".join(as_html(note) for note in self.notes)
        return (
            f"<p><strong>{as_html(self.headline)}</strong>{badge}</p>"
            f"<table><thead>{header}</thead><tbody>{rows}</tbody></table><p>{notes}</p>"
        )

    def to_mimebundle(self) -> dict[str, str]:
        """Return both forms by media type, for the front end to choose from."""
        return {"text/plain": str(self), "text/html": self.to_html()}


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{as_html(cell)}</{tag}>" for cell in cells) + "</tr>"
