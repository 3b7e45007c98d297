"""Access tokens of the workers' service accounts: issued by metadata servers, checked by the API.

A token contains its account, scopes and expiry, signed with a key from the state folder, so no token has to be stored
and all stay valid after a restart. Real tokens are opaque; clients must not parse these either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from google.rpc import code_pb2, error_details_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed, documented, recorded
from jupyter_tpu.emulator.resources.errors import Refusal, status_of
from jupyter_tpu.emulator.store.state_dir import read_or_create

LIFETIME_S = 3600  # the usual lifetime of Google's access tokens
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_PREFIX = "ya29.emulated."  # Google's access tokens start with ya29


@assumed(
    "token-lifetime", "A worker's access token is valid for one hour of real time, however fast virtual time runs."
)
class AccessTokens:
    """Issue and check tokens; `now` returns real time in seconds since the epoch."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._now = now

    def issue(self, email: str, scopes: Sequence[str]) -> dict[str, Any]:
        """Return the response of a metadata server: ``{"access_token", "expires_in", "token_type"}``."""
        claims = {"email": email, "scopes": list(scopes), "exp": self._now() + LIFETIME_S, "jti": secrets.token_hex(4)}
        payload = _text(json.dumps(claims).encode())
        token = f"{_PREFIX}{payload}.{self._signature(payload)}"
        # return a second less, so that a client never uses a token that has just expired
        return {"access_token": token, "expires_in": LIFETIME_S - 1, "token_type": "Bearer"}

    @documented(
        "token-scopes",
        "A worker's token can be used for the API if the node's service account has the scope cloud-platform; "
        "otherwise the call is refused with 403 ACCESS_TOKEN_SCOPE_INSUFFICIENT.",
        source="discovery document of tpu v2 (scopes of each method); cloud.google.com/docs/authentication",
    )
    @assumed(
        "foreign-tokens",
        "A call has the permissions of a project owner unless it has the token of one of this emulator's workers.",
    )
    def check(self, authorization: str, method: str) -> None:
        """Check a call's token if the emulator issued it; `method` is the full name of the method.

        Raises:
            Refusal: the token is forged or expired (401), or lacks the scope (403).
        """
        token = bearer(authorization)
        # any other bearer token is accepted (behaviour `foreign-tokens`)
        if not is_of_worker(token):
            return
        claims = self._claims(token.removeprefix(_PREFIX))
        if claims is None:
            raise _unauthenticated("ACCESS_TOKEN_TYPE_UNSUPPORTED", method)
        if claims["exp"] <= self._now():
            raise _unauthenticated("ACCESS_TOKEN_EXPIRED", method)
        if CLOUD_PLATFORM not in claims["scopes"]:
            raise _out_of_scope(method)

    def _claims(self, text: str) -> Any:
        payload, _, signature = text.partition(".")
        # compare in constant time, as for any secret; check the signature first, so that a forged token doesn't count
        # as expired
        if not hmac.compare_digest(signature.encode(errors="replace"), self._signature(payload).encode()):
            return None
        return json.loads(_bytes(payload))

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(errors="replace"), hashlib.sha256).hexdigest()


def read_or_create_key(path: Path) -> bytes:
    """Return the key of a state folder; if the key is missing, create one in a file that only its owner can read."""
    return read_or_create(path, lambda: secrets.token_bytes(32))


def is_of_worker(token: str) -> bool:
    """Return whether a token claims to come from a metadata server; the token may be invalid."""
    return token.startswith(_PREFIX)


def bearer(authorization: str) -> str:
    """Return the token in an ``Authorization`` header, or an empty string if there is none."""
    kind, _, token = authorization.partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


@recorded(
    "bad-token",
    "An invalid token is refused with 401 and the recorded text; an ErrorInfo contains the reason.",
    source="responses of Google APIs in many public logs",
)
def _unauthenticated(reason: str, method: str) -> Refusal:
    message = (
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project."
    )
    return Refusal(status_of(code_pb2.UNAUTHENTICATED, message, [_info(reason, method)]))


@recorded(
    "insufficient-scope",
    "A token without the required scope is refused with 403, the recorded text and an ErrorInfo "
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT.",
    source="responses of Google APIs in many public logs",
)
def _out_of_scope(method: str) -> Refusal:
    message = "Request had insufficient authentication scopes."
    details = [_info("ACCESS_TOKEN_SCOPE_INSUFFICIENT", method)]
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message, details))


def _info(reason: str, method: str) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(
        reason=reason, domain="googleapis.com", metadata={"service": "tpu.googleapis.com", "method": method}
    )


def _text(data: bytes) -> str:
    # strip the padding, so that a token has no character that a header must quote
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        # the token isn't ours, so the signature check fails anyway
        return b"{}"
