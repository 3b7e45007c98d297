"""Read values from the VM's metadata server. All functions block, so call them in a thread."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

_HOST_VARIABLE = "GCE_METADATA_HOST"
_HOST = "metadata.google.internal"
# Time limit of a request. The metadata server runs on the VM's host and normally responds within milliseconds.
_ANSWERS_S = 5.0
# Bytes to read of a response. Bounds memory; the largest value is a few KiB.
_LONGEST_ANSWER = 1024 * 1024


def metadata_host(environ: Mapping[str, str]) -> str:
    """Return the server's address; `environ` can specify another server."""
    return environ.get(_HOST_VARIABLE) or _HOST


def read_metadata(host: str, path: str) -> str:
    """Read a value; return an empty string if there is none at this path.

    Raises:
        urllib.error.HTTPError: the server refuses the request.
        OSError: there is no such server.
    """
    request = urllib.request.Request(f"http://{host}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"})
    try:
        # Never use the user's proxy, because the response may be a token.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_ANSWERS_S) as response:
            return str(response.read(_LONGEST_ANSWER).decode(errors="replace"))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            error.close()
            return ""
        raise
