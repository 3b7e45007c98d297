"""Reduce a request's messages to the fewest that have the same effect on a new front end.

Besides the outputs, the effect includes the ids of displays, a pending `clear_output` and the cursor of a progress bar,
so that live messages can follow. Front ends redraw the whole text for each stream message, so sending all messages
again would take seconds (3,000 single lines: 18 s in JupyterLab 4.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_tpu.outputs.execute_request import Request
from jupyter_tpu.outputs.parsing import Message
from jupyter_tpu.outputs.rendering import Part, Rendered, render

_UNSENT = {"session": "", "username": "", "date": "", "version": "5.3"}


def compact(request: Request, rendered: Rendered | None = None) -> list[dict[str, Any]]:
    """Return complete iopub messages. The metadata of each contains the seq of the newest message that it replaces.

    Args:
        rendered: the result of `render`, if the caller has it; outputs are truncated in the same way.
    """
    return list(_messages(request, rendered or render(request)))


def _messages(request: Request, rendered: Rendered) -> Iterator[dict[str, Any]]:
    if request.busy:
        yield _message(request, request.busy, "status", {"execution_state": "busy"})
    if request.execute_input:
        yield _message(request, request.execute_input, "execute_input", request.execute_input.content)
    for part in rendered.parts:
        yield _output_message(request, part)
    if request.is_clearing:
        yield _message(request, None, "clear_output", {"wait": True})
    if request.idle:
        yield _message(request, request.idle, "status", {"execution_state": "idle"})


def _output_message(request: Request, part: Part) -> dict[str, Any]:
    content = {name: value for name, value in part.output.items() if name != "output_type"}
    if part.cursor:  # a carriage return and the text before the cursor, so that the next text overwrites the right part
        content["text"] += part.cursor
    return _message(request, part.source, part.output["output_type"], content)


def _message(request: Request, source: Message | None, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    # our own message uses a header from the request, because front ends drop their queue if the session in the header
    # changes
    origin = source or request.busy
    header = origin.header if origin else {"msg_id": f"{request.msg_id}_{kind}", **_UNSENT}
    return {
        "header": {**header, "msg_type": kind},
        "parent_header": request.header,
        "metadata": {"jupyter_tpu": {"seq": source.seq if source else request.last_seq}},
        "content": dict(content),
        "msg_type": kind,
    }
