"""Convert exceptions from Google's client and failures in operations to our errors."""

from __future__ import annotations

import grpc
from google.api_core import exceptions as google_exceptions
from google.auth import exceptions as auth_exceptions
from google.rpc import error_details_pb2, status_pb2

from jupyter_tpu.cloud.messages import LOGIN_ACTIONS, LOGIN_HINT
from jupyter_tpu.cloud.refusal_records import Refusal, Request
from jupyter_tpu.cloud.refusals import error_of_refusal
from jupyter_tpu.errors import CredentialsMissing, TpuError

# Exceptions that a call to Google's client may raise. Any other exception is our bug and must stay visible.
CLOUD_EXCEPTIONS = (google_exceptions.GoogleAPIError, auth_exceptions.GoogleAuthError, grpc.RpcError, TimeoutError)

# For a request, these codes mean that the API did not respond. For a failed operation, the API has responded, so they
# mean an internal error of the cloud.
_NO_ANSWER = frozenset({grpc.StatusCode.DEADLINE_EXCEEDED.value[0], grpc.StatusCode.UNAVAILABLE.value[0]})
_INTERNAL = int(grpc.StatusCode.INTERNAL.value[0])

CANNOT_LOG_IN = "No Google Cloud credentials were found, or they cannot be used."


def error_of_exception(request: Request, exception: BaseException) -> TpuError:
    """Convert an exception whose type is in `CLOUD_EXCEPTIONS` to one of our errors."""
    if isinstance(exception, auth_exceptions.GoogleAuthError):
        return CredentialsMissing(
            CANNOT_LOG_IN,
            exists="No request was sent to the cloud.",
            hint=LOGIN_HINT,
            raw=str(exception),
            actions=LOGIN_ACTIONS,
        )
    return error_of_refusal(request, _refusal_of(exception))


def error_of_status(request: Request, status: status_pb2.Status) -> TpuError:
    """Convert a failed operation's status to one of our errors. The codes are from google.rpc.Code, not HTTP."""
    reason, violations = _from_details([_unpacked(each) for each in status.details])
    code = _INTERNAL if status.code in _NO_ANSWER else status.code
    return error_of_refusal(request, Refusal(code=code, message=status.message, reason=reason, violations=violations))


def _refusal_of(exception: BaseException) -> Refusal:
    # Retries did not help: the last failure is more helpful than “timeout exceeded”.
    if isinstance(exception, google_exceptions.RetryError) and exception.cause is not None:
        return _refusal_of(exception.cause)
    if isinstance(exception, google_exceptions.GoogleAPICallError):
        reason, violations = _from_details(exception.details)
        return Refusal(
            code=_code_of(exception),
            message=str(exception.message or ""),
            reason=exception.reason or reason,
            violations=violations,
        )
    code = 4 if isinstance(exception, TimeoutError) else 0
    return Refusal(code=code, message=str(exception))


def _code_of(exception: google_exceptions.GoogleAPICallError) -> int:
    """Return the google.rpc.Code. For a failed operation, only the exception's `errors` contain the code."""
    if exception.grpc_status_code is not None:
        return int(exception.grpc_status_code.value[0])
    inner = [error.code for error in exception.errors if isinstance(getattr(error, "code", None), int)]
    return int(inner[0]) if inner else 0


def _from_details(details: list[object]) -> tuple[str, tuple[str, ...]]:
    reason = next((each.reason for each in details if isinstance(each, error_details_pb2.ErrorInfo)), "")
    failures = [each for each in details if isinstance(each, error_details_pb2.QuotaFailure)]
    return reason, tuple(violation.description for failure in failures for violation in failure.violations)


def _unpacked(detail: object) -> object:
    for kind in (error_details_pb2.ErrorInfo, error_details_pb2.QuotaFailure):
        message = kind()
        if detail.Is(message.DESCRIPTOR):  # type: ignore[attr-defined]  # a protobuf Any
            detail.Unpack(message)  # type: ignore[attr-defined]
            return message
    return detail
