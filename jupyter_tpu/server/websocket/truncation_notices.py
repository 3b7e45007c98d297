"""The notices that replace omitted text on a page; they show its size, its newest lines and where to read it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from urllib.parse import quote

from jupyter_tpu.outputs.rendering import format_bytes
from jupyter_tpu.server.websocket.page_messages import PageMessage

READABLE_BYTES = 4_000_000
"""Maximum size of a message that a route can return; the agent reads no more (`request_listing.TAIL_BYTES`)."""

_LINES = 20  # lines of text in a notice: a preview of the kernel's output that doesn't fill the screen
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # all control characters of ASCII but tab and newline


def text_url(base_url: str, kernel_id: str, msg_id: str) -> str:
    """Return the URL of a request's full text."""
    return f"{base_url}jupyter-tpu/v1/kernels/{quote(kernel_id, safe='')}/requests/{quote(msg_id, safe='')}/text"


def message_url(base_url: str, kernel_id: str, message: PageMessage) -> str:
    """Return the URL at which a user can read a refused message, or an empty string if there is none."""
    if message.msg_type == "stream":
        return text_url(base_url, kernel_id, message.parent_id)
    if message.channel != "iopub" or message.size > READABLE_BYTES:
        return ""
    query = quote(message.parent_id, safe="")
    return f"{base_url}jupyter-tpu/v1/kernels/{quote(kernel_id, safe='')}/outputs?msg_id={query}"


def refusal_notice(base_url: str, kernel_id: str, message: PageMessage) -> str:
    """Return the notice that replaces a message too large for a client."""
    path = message_url(base_url, kernel_id, message)
    where = f"read it at {path}" if path else "raise the client's limit for the size of a WebSocket message"
    return (
        f"[Message {message.seq} of this kernel ({format_bytes(message.size)}) was left out: it is too large for this "
        f"client, which closed its connection. The node has it; {where}]"
    )


def truncation_notice(url: str, left_out_bytes: int, last_text: str) -> Mapping[str, str]:
    """Return the notice for omitted text as a MIME bundle, plain and HTML; printed text is always escaped."""
    if not left_out_bytes:
        return {"text/plain": "…"}
    summary = f"{format_bytes(left_out_bytes)} more on the node"
    lines = _last_lines(last_text)
    link = html.escape(url)
    anchors = (
        f'<a href="{link}" target="_blank" rel="noopener">open</a> · '
        f'<a href="{link}?download=1" target="_blank" rel="noopener">download</a>'
    )
    return {
        "text/plain": f"{summary}\n{lines}".rstrip(),
        "text/html": f"<p>{summary}: {anchors}</p>" + (f"<pre>{html.escape(lines)}</pre>" if lines else ""),
    }


def _last_lines(text: str) -> str:
    """Return the last lines as a terminal would show them, but without colours."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")[-_LINES:]]
    return _UNPRINTABLE.sub("", _ESCAPES.sub("", "\n".join(lines)))
