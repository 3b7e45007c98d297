"""The control API of the emulated cloud that this server uses, for the switchboard of a demo.

A plain pass-through of what is listed here and nothing else: the emulator itself is not known to the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPResponse

from jupyter_tpu.errors import BadInput, CloudUnavailable, NodeNotFound

ALLOWED: Mapping[str, frozenset[str]] = {
    "GET": frozenset(["state"]),
    "POST": frozenset(
        ["capacity", "clock", "faults", "links", "maintenance", "preempt", "project", "quotas", "reset", "stockout"]
    ),
    "DELETE": frozenset(["faults"]),
}
"""What may be asked of the control API, by HTTP verb."""

# a reset ends the processes of every worker
_TIMEOUT_S = 30.0


class EmulatorClient:
    """`address` is what `jupyter_tpu.cloud.emulator_address` gives.

    Args:
        authorize: gives the headers that the emulator asks for; called at each request, which fails where it raises.
    """

    def __init__(self, address: str, authorize: Callable[[], Mapping[str, str]]) -> None:
        self._base = f"{address}/emulator/v1"
        self._authorize = authorize

    async def ask(self, verb: str, part: str, body: Mapping[str, Any] | None = None, *, item: str = "") -> Any:
        """What the control API answers to ``VERB /emulator/v1/PART``, which must be `ALLOWED`.

        `item` is the number of one of the things that the part has.

        Raises:
            CredentialsMissing: its token cannot be read.
            BadInput: it says what is wrong with the body.
            NodeNotFound: what the body names is not there.
            CloudUnavailable: it does not answer, or not with JSON.
        """
        if part not in ALLOWED.get(verb, ()):
            raise ValueError(f"{verb} {part} is not passed on")
        data = None if body is None else json.dumps(body).encode()
        query = f"?id={int(item)}" if item else ""
        headers = {**self._authorize(), **({"Content-Type": "application/json"} if data is not None else {})}
        try:
            answer = await AsyncHTTPClient().fetch(
                f"{self._base}/{part}{query}",
                method=verb,
                headers=headers,
                body=data,
                request_timeout=_TIMEOUT_S,
                raise_error=False,
            )
        except (OSError, HTTPClientError) as error:
            raise CloudUnavailable(
                "The emulated cloud does not answer.", hint="It ends with its demo: start that again.", raw=str(error)
            ) from error
        return _json_of(answer)


def _json_of(answer: HTTPResponse) -> Any:
    text = answer.body.decode(errors="replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CloudUnavailable(f"The emulated cloud answered {answer.code}.", raw=text[:10_000]) from error
    if answer.code < 300:
        return body
    message = _message_of(body) or f"The emulated cloud answered {answer.code}."
    if answer.code == 404:
        raise NodeNotFound(message, hint="Look at what is there now.", raw=text[:10_000])
    if answer.code < 500:
        raise BadInput(message, raw=text[:10_000])
    raise CloudUnavailable(message, raw=text[:10_000])


def _message_of(body: Any) -> str:
    """The words in Google's error envelope; empty when it is none."""
    try:
        return str(body["error"]["message"])
    except (KeyError, TypeError):
        return ""
