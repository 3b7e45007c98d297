"""The types of outputs that a cell can have, and functions that parse them from the cell's messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jupyter_tpu.outputs.parsing import Malformed, Message, is_count
from jupyter_tpu.outputs.text import StreamText


@dataclass(slots=True)
class Stream:
    """Consecutive stream messages with the same stream name; `source` is the newest message."""

    name: str
    text: StreamText
    source: Message | None


@dataclass(slots=True, weakref_slot=True)
class Bundle:
    """The data of a display, shared by all displays with the same display_id, so that an update changes all of them."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    size: int

    def replace_with(self, other: Bundle) -> None:
        """Replace the data with the data of another bundle."""
        self.data, self.metadata, self.size = other.data, other.metadata, other.size


@dataclass(slots=True)
class Display:
    """A display, or the result of a cell if `is_result`."""

    bundle: Bundle
    source: Message
    display_id: str = ""
    is_result: bool = False
    execution_count: int | None = None


@dataclass(slots=True)
class Failure:
    """An exception raised by a cell."""

    ename: str
    evalue: str
    traceback: list[str] = field(default_factory=list)
    source: Message | None = None


Item: TypeAlias = Stream | Display | Failure


def stream_text(message: Message) -> tuple[str, str]:
    """Return the name and the text of a stream message.

    Raises:
        Malformed: the name or the text is missing or not a string.
    """
    name, text = message.content.get("name"), message.content.get("text")
    if not isinstance(name, str) or not isinstance(text, str):
        raise Malformed("a stream without a name or a text")
    return name, text


def display_id_of(message: Message) -> str:
    """Return the display_id of a display message, or an empty string if the message has none.

    Raises:
        Malformed: the display_id is not a string.
    """
    transient = message.content.get("transient") or {}
    # use 0, which is not text, so that a malformed `transient` is rejected below like a malformed ID
    display_id = transient.get("display_id", "") if isinstance(transient, dict) else 0
    if not isinstance(display_id, str | None):
        raise Malformed("a display_id that is not text")
    return display_id or ""


def bundle_of(message: Message) -> Bundle:
    """Return the data and metadata of a display message.

    Raises:
        Malformed: data or metadata is not an object.
    """
    data, metadata = message.content.get("data"), message.content.get("metadata") or {}
    if not isinstance(data, dict) or not isinstance(metadata, dict):
        raise Malformed("a display without data")
    return Bundle(data, metadata, message.size)


def pager_display(message: Message) -> Display | None:
    """Return the pager text in a reply (``print?``), which front ends show as a display, or None."""
    payload = message.content.get("payload")
    pages = [each for each in payload if _is_page(each)] if isinstance(payload, list) else []
    return Display(Bundle(pages[0]["data"], {}, message.size), message) if pages else None


def failure_of(message: Message) -> Failure:
    """Return the exception in an error message.

    Raises:
        Malformed: the message's ename, evalue or traceback is missing or has the wrong type.
    """
    content = message.content
    ename, evalue, traceback = content.get("ename"), content.get("evalue"), content.get("traceback")
    if not isinstance(ename, str) or not isinstance(evalue, str) or not isinstance(traceback, list):
        raise Malformed("an error whose fields are not text")
    if not all(isinstance(line, str) for line in traceback):
        raise Malformed("an error whose traceback is not a list of texts")
    return Failure(ename, evalue, traceback, message)


def count_of(message: Message) -> int | None:
    """Return the execution count in a message, or None if the message has no valid count."""
    count = message.content.get("execution_count")
    return count if is_count(count) else None


def _is_page(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("source") == "page" and isinstance(entry.get("data"), dict)
