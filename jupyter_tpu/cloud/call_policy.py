"""Timeouts and retries for calls through Google's client, and conversion of its exceptions to our errors.

Google's client has no timeouts or retries for this API.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from google.api_core import exceptions as google_exceptions
from google.api_core.retry import AsyncRetry, if_exception_type

from jupyter_tpu.cloud.refusal_records import Request
from jupyter_tpu.cloud.translation import CLOUD_EXCEPTIONS, error_of_exception

# For reads, and for CreateQueuedResource, whose request ID makes a retry harmless. Other changes must not be sent twice
# if the response is lost. The delays grow from 0.2 s to 2 s. After 6 s, report the outage to the caller, because a user
# may be waiting for the list.
_SAFE_RETRY = AsyncRetry(
    predicate=if_exception_type(google_exceptions.ServiceUnavailable, google_exceptions.DeadlineExceeded),
    initial=0.2,
    multiplier=2,
    maximum=2,
    timeout=6,
)
# Timeouts in seconds for one call, in case the server hangs. A change gets more time, because giving up leaves its
# outcome unknown.
READ: dict[str, Any] = {"retry": _SAFE_RETRY, "timeout": 30}
CHANGE: dict[str, Any] = {"retry": None, "timeout": 60}


@contextlib.contextmanager
def translated(request: Request) -> Iterator[None]:
    """Convert an exception from Google's client to a `TpuError` whose message names the `request`."""
    try:
        yield
    except CLOUD_EXCEPTIONS as exception:
        raise error_of_exception(request, exception) from exception
