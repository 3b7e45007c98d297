"""The metadata server of one emulated worker: plain HTTP on loopback, for the worker's user only.

Processes of the worker find it through ``GCE_METADATA_HOST``. `tree` builds its content; `query` reads it for requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import unquote

from aiohttp import web

from jupyter_tpu.emulator.access.access_tokens import AccessTokens
from jupyter_tpu.emulator.access.peers import is_own_connection
from jupyter_tpu.emulator.metadata.facts import WorkerFacts
from jupyter_tpu.emulator.metadata.identity_tokens import identity_token
from jupyter_tpu.emulator.metadata.query import HTML, JSON, TEXT, Reply, error_page, not_found, reply_to
from jupyter_tpu.emulator.metadata.tree import metadata_tree
from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded

LOOPBACK = "127.0.0.1"
ROOT = "/computeMetadata/v1/"
# host names that clients use; any other may come from a web page (DNS rebinding)
HOSTS = (LOOPBACK, "localhost", "metadata.google.internal", "169.254.169.254")
CLOSING_S = 0.1  # how long to wait for open requests when stopping: a request that waits for a change may never finish
_HEADERS = {
    "Metadata-Flavor": "Google",
    "Server": "Metadata Server for VM",
    "X-XSS-Protection": "0",
    "X-Frame-Options": "SAMEORIGIN",
}


class Changes:
    """Wakes the requests that wait for a change of a value. Each request then reads the value again."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiting requests."""
        current, self._next = self._next, asyncio.Event()  # later callers wait for the next event
        current.set()

    async def wait(self) -> None:
        """Wait until the next call of `notify`."""
        await self._next.wait()


class GuestAttributeStore(Protocol):
    """The storage for a worker's guest attributes."""

    def put_guest_attribute(self, namespace: str, key: str, value: str | None) -> None:
        """Store an attribute; None deletes it. Raises ValueError if the store is full."""


class MetadataServer:
    """The metadata server, which listens between `start` and `close`."""

    def __init__(
        self,
        *,
        facts: Callable[[], WorkerFacts],
        tokens: AccessTokens,
        guests: GuestAttributeStore,
        changes: Changes,
    ) -> None:
        self._facts = facts
        self._tokens = tokens
        self._guests = guests
        self._changes = changes
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=CLOSING_S)

    async def start(self, port: int) -> int:
        """Listen on loopback; return the port. Raises OSError if the port is in use."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, LOOPBACK, port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Reply to requests that wait for a change, and stop."""
        self._changes.notify()
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # check the caller before reading anything from the request
        reply = refusal(request, is_own=_is_own(request)) or await self._reply(request)
        return _response(reply)

    async def _reply(self, request: web.BaseRequest) -> Reply:
        path = unquote(request.path)
        if not path.startswith(ROOT):
            return _above(path)
        path = path.removeprefix(ROOT)
        # only guest attributes are writable
        if request.method in ("PUT", "DELETE") and path.startswith("instance/guest-attributes/"):
            return await self._change_guest_attribute(request, path)
        if request.method not in ("GET", "HEAD"):
            return error_page(405, "Method Not Allowed", "The request method is inappropriate for this URL.")
        if request.query.get("wait_for_change", "").lower() == "true":
            return await self._after_change(path, request.query)
        return await self._reply_now(path, request.query)

    async def _reply_now(self, path: str, query: Mapping[str, str]) -> Reply:
        facts = self._facts()
        account, _, item = path.removeprefix("instance/service-accounts/").partition("/")
        if path.startswith("instance/service-accounts/") and item in ("token", "identity"):
            if account not in ("default", facts.email):
                return not_found(path)
            return self._token(facts) if item == "token" else await _identity(facts, query)
        return reply_to(metadata_tree(facts), path, query)

    @documented(
        "metadata-token",
        "The token endpoint returns an access token for the node's service account with the node's scopes. As on "
        "Compute Engine, it ignores requested scopes.",
        source="google-auth 2.62, google/auth/compute_engine/credentials.py",
    )
    def _token(self, facts: WorkerFacts) -> Reply:
        return Reply(
            body=web.json_response(self._tokens.issue(facts.email, facts.scopes)).text or "", content_type=JSON
        )

    @documented(
        "wait-for-change",
        "With wait_for_change=true, the server responds when the value changes, or at once if the value's "
        "ETag differs from last_etag. After timeout_sec, it returns the current value.",
        source="cloud.google.com/compute/docs/metadata/querying-metadata",
    )
    async def _after_change(self, path: str, query: Mapping[str, str]) -> Reply:
        try:
            seconds = float(query["timeout_sec"]) if "timeout_sec" in query else None
        except ValueError:
            return error_page(400, "Bad Request", "timeout_sec must be a number.")
        reply = await self._reply_now(path, query)
        # without last_etag, wait for the next change
        known = query.get("last_etag", reply.etag)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # every change of the node wakes all waiting requests; the ETag shows whether their value changed
                while reply.etag == known:
                    await self._changes.wait()
                    reply = await self._reply_now(path, query)
        return reply

    @documented(
        "guest-attributes-put",
        "A process on the worker sets and deletes guest attributes at instance/guest-attributes/NAMESPACE/KEY; the "
        "API shows them.",
        source="cloud.google.com/compute/docs/metadata/manage-guest-attributes",
    )
    @assumed(
        "guest-attributes-always", "Guest attributes are always enabled, whatever the value of enable-guest-attributes."
    )
    async def _change_guest_attribute(self, request: web.BaseRequest, path: str) -> Reply:
        names = path.removeprefix("instance/guest-attributes/").split("/")
        # a namespace alone has no value
        if len(names) != 2 or not all(names):
            return error_page(404, "Not Found", "A guest attribute is NAMESPACE/KEY.")
        value = None if request.method == "DELETE" else (await request.read()).decode(errors="replace")
        try:
            self._guests.put_guest_attribute(names[0], names[1], value)
        except ValueError as error:
            return error_page(400, "Bad Request", str(error))
        self._changes.notify()
        return Reply()


@recorded(
    "metadata-flavor",
    "A request without the header Metadata-Flavor: Google is refused with 403 and the recorded text; only the "
    "path / does not require the header.",
    source="responses of the real server in several public write-ups of attacks on metadata servers",
)
@documented(
    "metadata-forwarded",
    "A request with the header X-Forwarded-For is refused.",
    source="cloud.google.com/compute/docs/metadata/querying-metadata",
)
@assumed(
    "metadata-own-user",
    "Only processes of the user who runs the emulator can reach a worker's metadata server; web pages can't.",
)
def refusal(request: web.BaseRequest, *, is_own: bool) -> Reply | None:
    """Return the error for an unsupported request, or None for a supported one."""
    host = request.host.rpartition(":")[0] or request.host
    if not is_own or host not in HOSTS or "Origin" in request.headers or "X-Forwarded-For" in request.headers:
        return error_page(403, "Forbidden", "This server serves only its own worker.")
    if request.path != "/" and request.headers.get("Metadata-Flavor") != "Google":
        return error_page(403, "Forbidden", _without_flavor(request.path))
    return None


def _without_flavor(path: str) -> str:
    shown = f"<code>{html.escape(path[:300])}</code>"
    begin = f"Your client does not have permission to get URL {shown} from this server."
    return f"{begin} Missing Metadata-Flavor:Google header."


def _is_own(request: web.BaseRequest) -> bool:
    transport = request.transport
    if transport is None:
        return False
    return is_own_connection(transport.get_extra_info("peername"), transport.get_extra_info("sockname"))


def _above(path: str) -> Reply:
    """Return the reply for a path above ``/computeMetadata/v1/``."""
    below = {"/": "computeMetadata/\n", "/computeMetadata/": "v1/\n"}
    return Reply(body=below[path]) if path in below else not_found(path.strip("/"))


async def _identity(facts: WorkerFacts, query: Mapping[str, str]) -> Reply:
    if not query.get("audience"):
        return Reply(status=400, body="non-empty audience parameter required\n", content_type=HTML)
    is_full = query.get("format") == "full"
    token = await asyncio.to_thread(identity_token, facts, query["audience"], is_full=is_full)
    return Reply(body=token, content_type=TEXT)


def _response(reply: Reply) -> web.Response:
    headers = dict(_HEADERS)
    if reply.etag:
        headers["ETag"] = reply.etag
    if reply.location:
        headers["Location"] = reply.location
    return web.Response(status=reply.status, text=reply.body, content_type=reply.content_type, headers=headers)
