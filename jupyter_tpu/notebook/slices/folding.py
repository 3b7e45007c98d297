"""The other workers' output in a cell. Workers with equal output form a group, shown once and folded.

This module is pure.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_tpu.errors import Text
from jupyter_tpu.i18n import shown
from jupyter_tpu.notebook.display import as_html
from jupyter_tpu.notebook.slices.collected import Collected, overwritten
from jupyter_tpu.notebook.slices.complete_html import is_complete
from jupyter_tpu.notebook.slices.targets import names_of

# Keep the theme's colours. In JupyterLab, use the same text size and left edge as for worker 0's own output.
_ALIGNED = "padding-left: var(--jp-code-padding, 0)"
_INDENTED = "margin-left: 1.3em"
_LIKE_OUTPUT = "margin: 0; font-size: var(--jp-code-font-size, inherit)"
# Maximum length of a preview in characters: about one line beside the label.
_PREVIEW = 80

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellError:
    """An exception that made a worker's part of a cell fail.

    Attributes:
        name: class of the exception.
        value: message of the exception.
        traceback: the traceback for display, which may contain terminal colours.
    """

    name: str
    value: str
    traceback: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" if self.value else self.name

    def is_same(self, other: CellError | None) -> bool:
        """Return whether another error has the same class and message."""
        return other is not None and (self.name, self.value) == (other.name, other.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One worker's part of a cell: its output, error and state.

    Attributes:
        state: the state in the label, such as ``still running``; empty if the part has finished.
        is_urgent: whether the state needs attention.
    """

    output: Collected = field(default_factory=Collected)
    error: CellError | None = None
    state: str = ""
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Workers whose parts of a cell are equal and shown once, as `part`; None if the parts equal worker 0's.

    Attributes:
        has_failed: whether worker 0's part, which these parts equal, has an error.
    """

    workers: tuple[int, ...]
    part: Part | None
    has_failed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the group is shown expanded, because it has an error or a state that needs attention."""
        return self.part is not None and (self.part.error is not None or self.part.is_urgent)

    @property
    def label(self) -> Text:
        """Return the group's label, which is one line."""
        names = names_of(self.workers)
        if self.part is None and self.has_failed:
            return Text("{workers}: same error", workers=names)
        if self.part is None:
            return Text("{workers}: same output", workers=names)
        if self.part.error is not None:
            return Text("{workers}: {reason}", workers=names, reason=str(self.part.error))
        if self.part.state:
            return Text("{workers}: {reason}", workers=names, reason=self.part.state)
        return Text("{workers}: no output", workers=names) if self.part.output.is_silent else names


def grouped(own: Part | None, others: Mapping[int, Part]) -> list[Group]:
    """Group the other workers by their output; omit groups that have nothing to show.

    Args:
        own: worker 0's part; None if the cell does not run on worker 0.
        others: the parts of the other workers, by worker number.
    """
    groups: dict[object, list[int]] = {}
    for worker, part in sorted(others.items()):
        groups.setdefault(_key(own, part), []).append(worker)
    shown_groups = []
    for key, workers in groups.items():
        part = others[workers[0]]
        is_silent = part.output.is_silent and part.error is None and not part.state
        own_is_silent = own is None or (own.output.is_silent and own.error is None)
        if key == "same":
            if not own_is_silent:
                has_failed = own is not None and own.error is not None
                shown_groups.append(Group(workers=tuple(workers), part=None, has_failed=has_failed))
        elif not (is_silent and own_is_silent):
            shown_groups.append(Group(workers=tuple(workers), part=part))
    return shown_groups


def _key(own: Part | None, part: Part) -> object:
    error = str(part.error) if part.error else ""
    if own is not None and not part.state:
        own_error = str(own.error) if own.error else ""
        if (part.output.digest, error) == (own.output.digest, own_error):
            return "same"
    return part.output.digest, error, part.state


def to_mimebundle(groups: list[Group]) -> dict[str, str]:
    """Return the groups as text and as HTML; the front end chooses one."""
    return {
        "text/plain": "\n".join(line for group in groups for line in _text_of(group)),
        "text/html": f'<div style="{_ALIGNED}">{"".join(_html_of(group) for group in groups)}</div>' if groups else "",
    }


def _text_of(group: Group) -> Iterator[str]:
    body = _body(group)
    label = shown(group.label)
    yield f"{label}:" if body and not group.is_open else label
    if body:
        yield body.rstrip("\n")


def _body(group: Group) -> str:
    if group.part is None:
        return ""
    output = group.part.output
    texts = [value if kind != "data" else _joined(value.get("text/plain", "")) + "\n" for kind, value in output.parts]
    if output.left_out:
        texts.append("\n" + shown(_left_out(group)) + "\n")
    if group.part.error is not None and group.part.error.traceback:
        texts.append("\n".join(group.part.error.traceback))
    return _plain("".join(texts))


def _left_out(group: Group) -> Text:
    """Return a text that says how much output is omitted between its start and its end."""
    count = f"{group.part.output.left_out:,}" if group.part else "0"
    return Text(
        "… {count} characters left out in the middle; `%tpu logs --worker {worker}` shows the end of the full output",
        count=count,
        worker=group.workers[0],
    )


def _html_of(group: Group) -> str:
    label = as_html(_plain(shown(group.label)))
    body = _html_body(group)
    if not body:
        return f'<div style="opacity: 0.7"><small>{label}</small></div>'
    # By these classes, JupyterLab keeps a fold open when it is updated; see `labextension/src/workerfolds.ts`.
    workers = f"jp-tpu-Workers-{'-'.join(map(str, group.workers))}"
    attributes = f'class="{workers} jp-tpu-mod-open" open' if group.is_open else f'class="{workers}"'
    summary = f"<summary><small>{label}{_html_preview(group)}</small></summary>"
    return f'<details {attributes}>{summary}<div style="{_INDENTED}">{body}</div></details>'


def _html_preview(group: Group) -> str:
    """Return the first line of a collapsed output, so that a short one need not be expanded."""
    first, _, rest = _body(group).strip().partition("\n")
    if group.is_open or not first:
        return ""
    is_cut = bool(rest) or len(first) > _PREVIEW
    preview = as_html(first[:_PREVIEW]) + (" …" if is_cut else "")
    return f'&ensp;<code style="background: none; opacity: 0.7">{preview}</code>'


def _html_body(group: Group) -> str:
    if group.part is None:
        return ""
    elements = []
    for kind, value in group.part.output.parts:
        if kind != "data":
            elements.append(_pre(str(value)))
        elif "image/png" in value:
            elements.append(f'<img src="data:image/png;base64,{html.escape(str(value["image/png"]))}">')
        elif "text/html" in value and is_complete(page := _joined(value["text/html"])):
            # not escaped: the user's own HTML is rendered here just as worker 0's output is; only HTML that does not
            # close its elements is not, because it could hide the output and errors of other workers
            elements.append(page)
        else:
            elements.append(_pre(_joined(value.get("text/plain", ""))))
    if group.part.output.left_out:
        elements.append(f"<p><small>{as_html(shown(_left_out(group)))}</small></p>")
    if group.part.error is not None and group.part.error.traceback:
        elements.append(_pre("\n".join(group.part.error.traceback)))
    return "".join(elements)


def _joined(value: Any) -> str:
    """Return a displayed text, which may be a list of its lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def _pre(text: str) -> str:
    return f'<pre style="{_LIKE_OUTPUT}">{html.escape(_plain(text))}</pre>'


def _plain(text: str) -> str:
    return _ANSI.sub("", overwritten(text))
