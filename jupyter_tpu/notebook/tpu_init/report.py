"""The report of `%tpu_init`: a table of devices, as text and HTML.

Every value is escaped: names come from the environment and from drivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_tpu.errors import Text
from jupyter_tpu.frameworks import TITLES
from jupyter_tpu.i18n import _, padded, shown, width_of
from jupyter_tpu.notebook.display import UNKNOWN, as_html, html_table
from jupyter_tpu.notebook.node.this_worker import ThisWorker

EMULATED = Text("emulated: CPU devices replace the chips, so speed and memory are not meaningful")
_HEADER = (Text("device"), Text("kind"), Text("memory"))
_HEADER_OF_HOSTS = (Text("worker"), Text("host"), Text("devices"), Text("memory"))


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
class Host:
    """A worker of a slice."""

    worker: int
    name: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report on a framework that runs on the accelerator.

    Attributes:
        why: why ``auto`` chose this framework; empty if the user named it.
        remark: what the user should know about this framework; empty if nothing.
        warning: a text about mismatched versions or harmless warnings; empty if there are none.
        seconds: how long all of ``%tpu_init`` took.
        hosts: the workers of a slice, which are listed instead of their devices; empty if there is one worker.
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
    hosts: tuple[Host, ...] = ()

    @property
    def headline(self) -> str:
        """The title, such as ``JAX is ready on 8 devices of v5litepod-8``."""
        devices = Text("1 device") if len(self.devices) == 1 else Text("{count} devices", count=len(self.devices))
        known = {"framework": TITLES[self.framework], "devices": devices, "type": self.worker.accelerator_type}
        if self.worker.accelerator_type:
            return _("{framework} is ready on {devices} of {type}", **known)
        return _("{framework} is ready on {devices}", **known)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(map(_, _HEADER_OF_HOSTS if self.hosts else _HEADER))

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Id, kind and memory of each device; on a slice, a row for each worker."""
        if self.hosts:
            return tuple(map(self._row_of_host, self.hosts))
        return tuple((str(each.id), self._kind(each), shown(each.memory)) for each in self.devices)

    def _row_of_host(self, host: Host) -> tuple[str, ...]:
        kinds = Counter(map(self._kind, host.devices))
        devices = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
        memory = " + ".join(dict.fromkeys(shown(each.memory) for each in host.devices))
        if any(each.memory_bytes for each in host.devices):
            memory = _("{memory} each", memory=memory)
        return str(host.worker), host.name, devices, memory

    def _kind(self, device: Device) -> str:
        return _("{kind} (emulated)", kind=device.kind) if self.worker.is_emulated else device.kind

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines below the table: the test result, the versions, and any remarks or warnings."""
        missing = _("not installed")
        libraries = ", ".join(f"{name} {version or missing}" for name, version in self.versions.items())
        return (
            _("Verified in {seconds} s: {proof}.", seconds=f"{self.seconds:.1f}", proof=self.proof),
            _("Versions: {versions}.", versions=libraries),
            *([_("Why this framework: {reason}.", reason=self.why)] if self.why else []),
            *([_("Note: {note}.", note=self.remark)] if self.remark else []),
            *([_("Warning: {warning}", warning=self.warning)] if self.warning else []),
        )

    def __str__(self) -> str:
        table = (self.header, *self.rows)
        widths = [max(map(width_of, column)) for column in zip(*table, strict=True)]
        lines = (
            "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        )
        title = f"{self.headline} ({_(EMULATED)})" if self.worker.is_emulated else self.headline
        return "\n".join((title, *lines, *self.notes))

    def to_html(self) -> str:
        """Return the report as HTML, with every value escaped."""
        badge = f" <em>{as_html(_(EMULATED))}</em>" if self.worker.is_emulated else ""
        notes = "<br>".join(as_html(note) for note in self.notes)
        return (
            f"<p><strong>{as_html(self.headline)}</strong>{badge}</p>{html_table(self.header, self.rows)}<p>{notes}</p>"
        )

    def to_mimebundle(self) -> dict[str, str]:
        """Return the plain-text and HTML forms by media type; the front end chooses one."""
        return {"text/plain": str(self), "text/html": self.to_html()}
