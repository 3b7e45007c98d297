"""Check bearer tokens: any token is accepted, but a cloud that requires tokens rejects calls without a token."""

from __future__ import annotations

from google.rpc import code_pb2, error_details_pb2

from jupyter_tpu.emulator.resources.behaviours import assumed, recorded
from jupyter_tpu.emulator.resources.errors import Refusal, status_of

CHALLENGE = 'Bearer realm="https://accounts.google.com/"'
"""The header ``WWW-Authenticate`` of a 401 response."""

_MISSING = "Request is missing required authentication credential."
_INVALID = "Request had invalid authentication credentials."
_EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


@recorded(
    "unauthenticated",
    "A call without credentials is refused with 401, an ErrorInfo CREDENTIALS_MISSING and a challenge.",
    source="reactmore/morelab#17; googleapis/google-api-php-client#2479 (other Google APIs)",
)
@assumed("tokens", "The emulator accepts any bearer token; an Authorization header with another scheme is invalid.")
def check_token(header: str, method: str) -> None:
    """Raise a 401 error unless the ``Authorization`` header contains a bearer token.

    `method` is the full name of the method, or an empty string for Google services other than Cloud TPU.
    """
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return
    problem, reason = (_INVALID, "ACCESS_TOKEN_TYPE_UNSUPPORTED") if header else (_MISSING, "CREDENTIALS_MISSING")
    called = {"method": method, "service": "tpu.googleapis.com"} if method else {}
    info = error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com", metadata=called)
    raise Refusal(status_of(code_pb2.UNAUTHENTICATED, f"{problem} {_EXPECTED}", [info]))
