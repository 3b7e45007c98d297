"""The report of `%tpu_init`: a table of devices, as text and HTML.

Every value is escaped: names come from the environment and from drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.errors import Text
from jupyter_tpu.frameworks import TITLES
from jupyter_tpu.i18n import _, padded, shown, width_of
from jupyter_tpu.notebook.display import UNKNOWN, as_html
from jupyter_tpu.notebook.node.this_worker import ThisWorker

EMULATED = Text("emulated: CPU devices stand in for the chips, so speed and memory mean nothing")
_HEADER = (Text("device"), Text("kind"), Text("memory"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of the framework; `memory_bytes` is None if unknown."""

    id: int
    kind: str
    memory_bytes: int | None = None

    @property
    def memory(self) -> str:
        """The size of the device's memory, such as ``16.0 GiB``."""
        return UNKNOWN if self.memory_bytes is None else f"{self.memory_bytes / 2**30:.1f} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on a framework that runs on the accelerator.

    Attributes:
        why: why ``auto`` chose this framework; empty if the user named it.
        remark: a note for the user about this framework; empty if none.
        warning: mismatched versions or explanations of harmless warnings; empty if there are none.
        seconds: total duration of ``%tpu_init``.
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
        devices = Text("1 device") if len(self.devices) == 1 else Text("{count} devices", count=len(self.devices))
        known = {"framework": TITLES[self.framework], "devices": devices, "type": self.worker.accelerator_type}
        if self.worker.accelerator_type:
            return _("{framework} is ready on {devices} of {type}", **known)
        return _("{framework} is ready on {devices}", **known)

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """The id, kind and memory of each device."""
        return tuple((str(each.id), self._kind(each), shown(each.memory)) for each in self.devices)

    def _kind(self, device: Device) -> str:
        return _("{kind} (emulated)", kind=device.kind) if self.worker.is_emulated else device.kind

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines below the table: the test result, the versions, and any remark and warning."""
        missing = _("not installed")
        libraries = ", ".join(f"{name} {version or missing}" for name, version in self.versions.items())
        return (
            _("Verified in {seconds} s: {proof}.", seconds=f"{self.seconds:.1f}", proof=self.proof),
            _("Versions: {versions}.", versions=libraries),
            *([_("Chosen: {reason}.", reason=self.why)] if self.why else []),
            *([_("Note: {note}.", note=self.remark)] if self.remark else []),
            *([_("Warning: {warning}", warning=self.warning)] if self.warning else []),
        )

    def __str__(self) -> str:
        table = (tuple(map(_, _HEADER)), *self.rows)
        widths = [max(width_of(row[column]) for row in table) for column in range(3)]
        lines = (
            "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        )
        title = f"{self.headline} ({_(EMULATED)})" if self.worker.is_emulated else self.headline
        return "\n".join((title, *lines, *self.notes))

    def to_html(self) -> str:
        """Return the report as HTML, with every value escaped."""
        badge = f" <em>{as_html(_(EMULATED))}</em>" if self.worker.is_emulated else ""
        header = _html_row("th", tuple(map(_, _HEADER)))
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
