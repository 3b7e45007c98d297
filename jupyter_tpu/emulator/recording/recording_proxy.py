"""A reverse proxy on loopback that forwards a user's real session to Google and records each exchange as a case.

The proxy forwards requests only to its one upstream. It forwards credentials, but never stores credentials or headers.
If an exchange can't be stored, the client still gets its response, and `on_trouble` is called.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import aiohttp
from aiohttp import web
from google.rpc import code_pb2
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from jupyter_tpu.emulator.recording.cases import Case, last_number, write_case
from jupyter_tpu.emulator.recording.scrubbing import Scrubber
from jupyter_tpu.emulator.resources.errors import status_of
from jupyter_tpu.emulator.transport.json_answers import refused

LARGEST_BODY_BYTES = 16 * 2**20  # our choice, above the 10 MiB that Google's front end accepts; bounds memory
_PATIENCE_S = 120  # real seconds to wait for one response; our choice
_LOOPBACK = frozenset(["127.0.0.1", "localhost", "::1"])
# request headers that aren't passed on: hop-by-hop headers (RFC 9110, 7.6.1), and headers that aiohttp sets
_OF_ONE_HOP = re.compile(
    "connection|keep-alive|proxy-authenticate|proxy-authorization|te|trailer|transfer-encoding|upgrade"
    "|host|content-length|accept-encoding",
    re.IGNORECASE,
)
# response headers that aren't passed on: the headers above, and those that would be wrong here, because the body is
# decoded and served without TLS
_OF_THE_CODING = re.compile(f"{_OF_ONE_HOP.pattern}|content-encoding|alt-svc|strict-transport-security", re.IGNORECASE)
_RESOURCE = re.compile(
    "projects|locations|nodes|queuedResources|operations|acceleratorTypes|runtimeVersions|reservations|services"
    "|quotaInfos|quotaPreferences|consumerQuotaMetrics|billingAccounts|skus|budgets|timeSeries"
    "|getGuestAttributes|start|stop|reset|generateServiceIdentity|simulateMaintenanceEvent|performMaintenance"
)


class UpstreamRefused(ValueError):
    """The proxy can't record an upstream with this address; the message gives the reason."""


def checked_upstream(text: str) -> str:
    """Return the origin of an upstream, without a path.

    Raises UpstreamRefused for an invalid address, and for http unless the upstream is on this computer.
    """
    parts = urlsplit(text if "://" in text else f"https://{text}")
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise UpstreamRefused(f"{text!r} is not an address such as https://tpu.googleapis.com")
    if parts.path.strip("/"):
        raise UpstreamRefused(f"{text!r} has a path; give the host only")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise UpstreamRefused(f"{text!r} is not encrypted; http is for services on this machine")
    return f"{parts.scheme}://{parts.netloc}"


@dataclass(slots=True)
class Recording:
    """A recording session: all its proxies store their cases in one folder."""

    folder: Path
    on_case: Callable[[Case], None]
    on_trouble: Callable[[str], None]
    scrubber: Scrubber = field(default_factory=Scrubber)
    _number: int = 0
    _first: float | None = None

    def begin(self) -> None:
        """Create the folder, for its owner only; keep the cases of an earlier recording. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._number = last_number(self.folder)

    def keep(self, upstream: str, exchange: Exchange) -> None:
        """Write an exchange to a file, as a case."""
        # the recording's clock starts with the first request
        self._first = exchange.began if self._first is None else self._first
        self._number += 1
        case = _case(exchange, self.scrubber, self._number, upstream, exchange.began - self._first)
        try:
            write_case(self.folder, case)
        # the session is more important than the recording, so a full disk must not interrupt the session
        except OSError as error:
            self.on_trouble(f"{case.name} cannot be written: {error}")
        else:
            self.on_case(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its response, as they were sent."""

    verb: str
    path: str
    query: str
    body: bytes
    secrets: tuple[str, ...]
    status: int
    answer: bytes
    began: float


class RecordingProxy:
    """A proxy that forwards to one upstream server; call `open` and `close` once each."""

    def __init__(self, upstream: str, recording: Recording) -> None:
        self._upstream = upstream
        self._recording = recording
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Open the client session."""
        is_outside = self._upstream.startswith("https:")
        timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
        self._session = aiohttp.ClientSession(timeout=timeout, trust_env=is_outside)

    async def close(self) -> None:
        """Close the client session."""
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, record the exchange, and return the response."""
        began = time.monotonic()
        # read the whole body, because it is both sent and recorded
        body = await request.read()
        try:
            status, headers, answer = await self._forward(request, body)
        # don't record a network failure, because it is not a response from Google
        except (aiohttp.ClientError, TimeoutError) as error:
            return refused(status_of(code_pb2.UNAVAILABLE, f"{self._upstream} gave no answer: {error!r:.300}"))
        exchange = Exchange(
            verb=request.method,
            path=request.path,
            query=request.query_string,
            body=body,
            secrets=_secrets_of(request.headers),
            status=status,
            answer=answer,
            began=began,
        )
        self._recording.keep(self._upstream, exchange)
        return web.Response(body=answer, status=status, headers=headers)

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, CIMultiDict[str], bytes]:
        assert self._session is not None, "open comes before handle"
        target = URL(self._upstream + request.raw_path, encoded=True)
        headers = _without(request.headers, _OF_ONE_HOP)
        async with self._session.request(
            request.method, target, data=body or None, headers=headers, allow_redirects=False
        ) as answer:
            return answer.status, _without(answer.headers, _OF_THE_CODING), await _content(answer)


async def _content(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > LARGEST_BODY_BYTES:
            raise aiohttp.ClientPayloadError("the response is too large to be recorded")
    return bytes(content)


def _without(headers: CIMultiDictProxy[str], left_out: re.Pattern[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if not left_out.fullmatch(name))


def _secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets that authorise the request, so that they can be hidden if a response repeats them."""
    words = headers.get("Authorization", "").split()
    return tuple(word for word in (*words[-1:], headers.get("X-Goog-Api-Key", "")) if word)


def _case(exchange: Exchange, scrubber: Scrubber, number: int, upstream: str, after_s: float) -> Case:
    path, sent, received = unquote(exchange.path), _decoded(exchange.body), _decoded(exchange.answer)
    # collect secrets and names from the whole exchange before scrubbing any part
    for secret in exchange.secrets:
        scrubber.hide(secret)
    for text in (path, unquote(exchange.query), _text(exchange.body), _text(exchange.answer)):
        scrubber.learn(text)
    query = [(name, scrubber.scrubbed(value, name)) for name, value in parse_qsl(exchange.query, True)]
    shown = scrubber.text(path) + (f"?{urlencode(query, safe='<>/:,')}" if query else "")
    return Case(
        name=f"{number:04d}-{_name(exchange)}",
        request=f"{exchange.verb} {shown}",
        body=scrubber.scrubbed(sent),
        status=exchange.status,
        answer=scrubber.scrubbed(received),
        after_s=round(after_s, 3),
        standing="recorded",
        source=f"{urlsplit(upstream).hostname}, recorded on {datetime.now(UTC):%Y-%m-%d}",
    )


def _decoded(content: bytes) -> Any:
    """Return the body as parsed JSON, or as text if it is not JSON, or None if it is empty."""
    if not content.strip():
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return _text(content)


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _name(exchange: Exchange) -> str:
    """Return a name for the recording: HTTP verb and resource kind, such as ``post-nodes``, without private names."""
    path = unquote(exchange.path)
    kinds = [word for word in re.split("[/:]", path) if _RESOURCE.fullmatch(word)]
    return f"{exchange.verb.lower()}-{kinds[-1] if kinds else 'request'}"
