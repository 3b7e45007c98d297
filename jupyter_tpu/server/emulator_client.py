"""A client of the emulated cloud's control API, for the failure simulator of the demo.

It forwards only the requests in `ALLOWED`; the server does not import the emulator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPResponse

from jupyter_tpu.errors import BadInput, CloudUnavailable, NodeNotFound, Text

ALLOWED: Mapping[str, frozenset[str]] = {
    "GET": frozenset(["state"]),
    "POST": frozenset(
        [
            *("capacity", "clock", "faults", "links", "maintenance", "preempt", "project", "quotas", "reset"),
            *("stockout", "workers"),
        ]
    ),
    "DELETE": frozenset(["faults"]),
}
"""The parts of the control API that may be called, by HTTP method."""

# Time limit of a request. A reset takes longest, because it shuts down the processes of every worker.
_TIMEOUT_S = 30.0


class EmulatorClient:
    """A client of the control API at one address.

    Args:
        address: the result of `jupyter_tpu.cloud.emulator_address`.
        authorize: a function that returns the headers with the emulator's token; called for each request, because the
            token may change.
    """

    def __init__(self, address: str, authorize: Callable[[], Mapping[str, str]]) -> None:
        self._base = f"{address}/emulator/v1"
        self._authorize = authorize

    async def call(self, verb: str, part: str, body: Mapping[str, Any] | None = None, *, item: str = "") -> Any:
        """Call ``VERB /emulator/v1/PART``, which must be in `ALLOWED`; return its JSON.

        Args:
            item: the number of one entry of the part, such as a fault; empty for all entries.

        Raises:
            CredentialsMissing: the emulator's token can't be read.
            BadInput: the emulator rejects the body.
            NodeNotFound: a resource named in the body does not exist.
            CloudUnavailable: the emulator does not respond, or its response is not JSON.
        """
        if part not in ALLOWED.get(verb, ()):
            raise ValueError(f"{verb} {part} is not passed on")
        data = None if body is None else json.dumps(body).encode()
        query = f"?id={int(item)}" if item else ""  # int() ensures that nothing else of a request gets into the URL
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
                "The emulated cloud is not responding.",
                hint="Start the demo again; this also starts the emulated cloud.",
                raw=str(error),
            ) from error
        return _json_of(answer)


def _json_of(answer: HTTPResponse) -> Any:
    text = answer.body.decode(errors="replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CloudUnavailable(
            Text("The emulated cloud returned HTTP {status}.", status=answer.code), raw=text[:10_000]
        ) from error
    if answer.code < 300:
        return body
    message = _message_of(body) or Text("The emulated cloud returned HTTP {status}.", status=answer.code)
    if answer.code == 404:
        raise NodeNotFound(message, hint="Reload the failure simulator.", raw=text[:10_000])
    if answer.code < 500:
        raise BadInput(message, raw=text[:10_000])
    raise CloudUnavailable(message, raw=text[:10_000])


def _message_of(body: Any) -> str:
    """Return the message in a body with Google's error format, or "" for a body in another format."""
    try:
        return str(body["error"]["message"])
    except (KeyError, TypeError):
        return ""
