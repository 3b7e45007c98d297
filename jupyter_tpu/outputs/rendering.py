"""Render outputs in notebook format (nbformat 4), within limits; a notice replaces omitted output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jupyter_tpu.outputs.execute_request import Request
from jupyter_tpu.outputs.items import Display, Failure, Item, Stream
from jupyter_tpu.outputs.parsing import Message
from jupyter_tpu.outputs.text import StreamText


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on the shown output of a request.

    The defaults limit the output that a page must draw at once. The limits for text are `reducer.TEXT_HEAD` and
    `reducer.TEXT_TAIL`. Images and HTML are drawn fast (50 images of 2 MB in 0.1 s, 1,000 HTML outputs in 0.15 s), but
    all data is fetched and becomes part of the saved notebook.

    Attributes:
        error_head, error_tail: number of characters kept at the start and the end of an exception's message and
            traceback.
        bundles: total bytes of displays and results; beyond this limit, only the type of the data is shown.
        outputs: number of outputs; if there are more, the outputs in the middle are omitted.
    """

    error_head: int = 20_000
    error_tail: int = 180_000
    bundles: int = 10_000_000
    outputs: int = 2_000


NO_LIMITS = Limits(
    error_head=sys.maxsize // 4, error_tail=sys.maxsize // 4, bundles=sys.maxsize // 4, outputs=sys.maxsize // 4
)


class Part(NamedTuple):
    """One output. For a stream, `cursor` is the text that moves the cursor to where the next text must be printed."""

    output: dict[str, Any]
    source: Message | None
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The outputs of a request.

    Attributes:
        parts: the outputs with the messages that contained them.
        text_size, bundle_size: their approximate size in characters (text) and bytes (displays).
        omitted_bytes: approximate number of omitted bytes.
    """

    parts: list[Part]
    text_size: int
    bundle_size: int
    omitted_bytes: int

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The outputs in the form of a notebook."""
        return [part.output for part in self.parts]


def render(request: Request, limits: Limits | None = None) -> Rendered:
    """Return the outputs of a request.

    ``transient`` contains the display_id, if any, and must not be saved in a file.
    """
    limits = limits or Limits()
    page = _Page(limits)
    # keep more of the end than of the beginning: the latest outputs show the cell's progress
    head, surplus = limits.outputs // 4, len(request.outputs) - limits.outputs
    for place, item in enumerate(request.outputs):
        if place == head and surplus > 0:
            page.leave_out(request.outputs[head : head + surplus])
        if surplus <= 0 or not head <= place < head + surplus:
            page.add(item)
    return Rendered(page.parts, page.text_size, page.bundle_size, page.omitted)


def format_bytes(size: int) -> str:
    """Format a number of bytes with a decimal unit, such as ``1.2 MB``."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}" if size < 10 * factor else f"{size // factor} {unit}"
    return f"{size} bytes"


class _Page:
    """The collected outputs of a request, with their sizes."""

    def __init__(self, limits: Limits) -> None:
        self.parts: list[Part] = []
        self.text_size = self.bundle_size = self.omitted = 0
        self._limits = limits

    def add(self, item: Item) -> None:
        """Add one output."""
        if isinstance(item, Stream):
            self.parts.append(self._stream(item))
        elif isinstance(item, Display):
            self.parts.append(Part(self._display(item), item.source))
        else:
            self.parts.append(Part(self._failure(item), item.source))

    def leave_out(self, items: Sequence[Item]) -> None:
        """Add a notice about omitted outputs.

        The notice is a display, because front ends merge consecutive streams.
        """
        self.omitted += sum(map(_rough_size, items))
        data = {"text/plain": f"… {len(items)} more outputs on the node"}
        self.parts.append(Part({"output_type": "display_data", "data": data, "metadata": {}}, items[0].source))

    def _stream(self, item: Stream) -> Part:
        text, cursor, omitted = _stream_text(item.text)
        self.text_size += len(text)
        self.omitted += omitted
        return Part({"output_type": "stream", "name": item.name, "text": text}, item.source, cursor)

    def _display(self, item: Display) -> dict[str, Any]:
        output: dict[str, Any] = {"output_type": "execute_result" if item.is_result else "display_data"}
        if item.is_result:
            output["execution_count"] = item.execution_count
        output |= self._bundle(item)
        if item.display_id:
            output["transient"] = {"display_id": item.display_id}
        return output

    def _bundle(self, item: Display) -> dict[str, Any]:
        bundle = item.bundle
        if self.bundle_size + bundle.size <= self._limits.bundles:
            self.bundle_size += bundle.size
            return {"data": bundle.data, "metadata": bundle.metadata}
        self.omitted += bundle.size
        kinds = ", ".join(str(kind)[:80] for kind in list(bundle.data)[:5])
        notice = f"[{format_bytes(bundle.size)} of {kinds} not restored; rerun the cell to see it]"
        return {"data": {"text/plain": notice}, "metadata": {}}

    def _failure(self, item: Failure) -> dict[str, Any]:
        traceback = self._excerpt("\n".join(item.traceback))
        ename, evalue = self._excerpt(item.ename), self._excerpt(item.evalue)
        lines = item.traceback if traceback is None else traceback.split("\n")
        return {
            "output_type": "error",
            "ename": item.ename if ename is None else ename,
            "evalue": item.evalue if evalue is None else evalue,
            "traceback": lines,
        }

    def _excerpt(self, text: str) -> str | None:
        """Return a text without its middle, or None if the text is short enough to be shown in full."""
        self.text_size += min(len(text), self._limits.error_head + self._limits.error_tail)
        if len(text) <= self._limits.error_head + self._limits.error_tail:
            return None
        kept = StreamText(self._limits.error_head, self._limits.error_tail)
        kept.append(text)
        shown, _, omitted = _stream_text(kept)
        self.omitted += omitted
        return shown


def _rough_size(item: Item) -> int:
    if isinstance(item, Stream):
        return len(_stream_text(item.text)[0])
    return item.bundle.size if isinstance(item, Display) else len(item.evalue) + sum(map(len, item.traceback))


def _stream_text(text: StreamText) -> tuple[str, str, int]:
    """Return the text to show, the text that then moves the cursor to its position, and the number of omitted bytes."""
    excerpt = text.excerpt()
    shown = excerpt.tail
    if excerpt.omitted_bytes:
        line_end = "" if not excerpt.head or excerpt.head.endswith("\n") else "\n"
        notice = f"… {format_bytes(excerpt.omitted_bytes)} more on the node"
        shown = f"{excerpt.head}{line_end}{notice}\n{excerpt.tail}"
    if excerpt.cursor is None:
        return shown, "", excerpt.omitted_bytes
    last_line = excerpt.tail[excerpt.tail.rfind("\n") + 1 :]
    return shown, "\r" + last_line[: excerpt.cursor], excerpt.omitted_bytes
