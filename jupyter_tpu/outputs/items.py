"""The single outputs of a cell, as they stand between two messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jupyter_tpu.outputs.parsing import Malformed, Message, is_count
from jupyter_tpu.outputs.text import StreamText


@dataclass(slots=True)
class Stream:
    """Consecutive stream messages of one name; `source` is the newest."""

    name: str
    text: StreamText
    source: Message | None


@dataclass(slots=True, weakref_slot=True)
class Bundle:
    """What a display shows; all displays of one display_id share it, so that an update reaches them at once."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    size: int

    def become(self, other: Bundle) -> None:
        self.data, self.metadata, self.size = other.data, other.metadata, other.size


@dataclass(slots=True)
class Display:
    """A display or, with an `execution_count`, a result."""

    bundle: Bundle
    source: Message
    display_id: str = ""
    is_result: bool = False
    execution_count: int | None = None


@dataclass(slots=True)
class Failure:
    """An exception."""

    ename: str
    evalue: str
    traceback: list[str] = field(default_factory=list)
    source: Message | None = None


Item: TypeAlias = Stream | Display | Failure


def stream_text(message: Message) -> tuple[str, str]:
    """Name and text of a stream message.

    Raises:
        Malformed: they are no texts.
    """
    name, text = message.content.get("name"), message.content.get("text")
    if not isinstance(name, str) or not isinstance(text, str):
        raise Malformed("a stream without a name or a text")
    return name, text


def display_id_of(message: Message) -> str:
    """The display's name; empty where it has none.

    Raises:
        Malformed: it is no text.
    """
    transient = message.content.get("transient") or {}
    display_id = transient.get("display_id", "") if isinstance(transient, dict) else 0
    if not isinstance(display_id, str | None):
        raise Malformed("a display_id that is no text")
    return display_id or ""


def bundle_of(message: Message) -> Bundle:
    """What a display message shows.

    Raises:
        Malformed: data or metadata is no object.
    """
    data, metadata = message.content.get("data"), message.content.get("metadata") or {}
    if not isinstance(data, dict) or not isinstance(metadata, dict):
        raise Malformed("a display without data")
    return Bundle(data, metadata, message.size)


def page_of(message: Message) -> Display | None:
    """The help text that a reply carries (``print?``), which front ends show as a display."""
    payload = message.content.get("payload")
    pages = [each for each in payload if _is_page(each)] if isinstance(payload, list) else []
    return Display(Bundle(pages[0]["data"], {}, message.size), message) if pages else None


def failure_of(message: Message) -> Failure:
    """The exception of an error message.

    Raises:
        Malformed: its fields are not texts.
    """
    content = message.content
    ename, evalue, traceback = content.get("ename"), content.get("evalue"), content.get("traceback")
    if not isinstance(ename, str) or not isinstance(evalue, str) or not isinstance(traceback, list):
        raise Malformed("an error whose fields are no texts")
    if not all(isinstance(line, str) for line in traceback):
        raise Malformed("an error whose traceback is no list of texts")
    return Failure(ename, evalue, traceback, message)


def count_of(message: Message) -> int | None:
    """The execution count that a message tells, if any."""
    count = message.content.get("execution_count")
    return count if is_count(count) else None


def _is_page(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("source") == "page" and isinstance(entry.get("data"), dict)
