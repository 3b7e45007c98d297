"""The words that stand in a page for what is left out: how much, where all of it is, and a text's newest lines."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from urllib.parse import quote

from jupyter_tpu.outputs.rendering import size_in_words
from jupyter_tpu.server.websocket.messages import PageMessage

READABLE_BYTES = 4_000_000
"""What the agent reads of a request holds no message that is much larger."""

_LINES = 20
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\x80-\U0010ffff]")


def text_url(base_url: str, kernel_id: str, msg_id: str) -> str:
    """The route that gives all text of a request."""
    return f"{base_url}jupyter-tpu/v1/kernels/{quote(kernel_id, safe='')}/requests/{quote(msg_id, safe='')}/text"


def read_at(base_url: str, kernel_id: str, message: PageMessage) -> str:
    """The route that gives a message which a client refuses, as text or as an output; empty for one that none gives."""
    if message.msg_type == "stream":
        return text_url(base_url, kernel_id, message.parent_id)
    if message.channel != "iopub" or message.size > READABLE_BYTES:
        return ""
    query = quote(message.parent_id, safe="")
    return f"{base_url}jupyter-tpu/v1/kernels/{quote(kernel_id, safe='')}/outputs?msg_id={query}"


def refused_words(base_url: str, kernel_id: str, message: PageMessage) -> str:
    """The words in the place of a message that is larger than a client takes."""
    path = read_at(base_url, kernel_id, message)
    where = f"read it at {path}" if path else "raise the client's limit for the size of a WebSocket message"
    return (
        f"[Message {message.seq} of this kernel ({size_in_words(message.size)}) was left out: this client closed its "
        f"connection at it. It is kept on the node; {where}]"
    )


def left_out_words(url: str, left_out_bytes: int, last_text: str) -> Mapping[str, str]:
    """A MIME bundle, plain and HTML. What the kernel printed stands in it as text, never as HTML."""
    if not left_out_bytes:
        return {"text/plain": "…"}
    words = f"{size_in_words(left_out_bytes)} more on the node"
    lines = _last_lines(last_text)
    link = html.escape(url)
    anchors = (
        f'<a href="{link}" target="_blank" rel="noopener">open</a> · '
        f'<a href="{link}?download=1" target="_blank" rel="noopener">download</a>'
    )
    return {
        "text/plain": f"{words}\n{lines}".rstrip(),
        "text/html": f"<p>{words}: {anchors}</p>" + (f"<pre>{html.escape(lines)}</pre>" if lines else ""),
    }


def _last_lines(text: str) -> str:
    """As a terminal would show them, but without colours: what a carriage return overwrote is gone."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")[-_LINES:]]
    return _UNPRINTABLE.sub("", _ESCAPES.sub("", "\n".join(lines)))
