"""Find this worker's node through the metadata server, and stop or delete it through the Cloud TPU API.

No credential is stored on the worker: the metadata server issues a token for the node's service account on request.
Everything here blocks, so call it in a thread.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.agent.metadata import metadata_host, read_metadata
from jupyter_tpu.agent.recording.jupyter_messages import json_object

API = "https://tpu.googleapis.com/"
API_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"
"""The environment variable with another endpoint of the Cloud TPU API, for gcloud and for jupyter_tpu."""

_SCOPES = "instance/service-accounts/default/scopes"
_TOKEN = "instance/service-accounts/default/token"
_CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
# Time limit of one API call. After a timeout, the guard tries again.
_API_S = 30.0
# Bytes to read of a response. Bounds memory; the description of a node takes only a few KiB.
_LONGEST_ANSWER = 1024 * 1024


class CannotEnd(Exception):
    """The error raised when the node can't be stopped or deleted from here; the message gives the reason.

    Attributes:
        is_refused: whether the API rejected the action although the node is READY, so that retrying won't help.
    """

    def __init__(self, reason: str, *, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.is_refused = is_refused


class OwnNode:
    """This VM's own node; `environ` can specify another metadata server and API."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._metadata = metadata_host(environ)
        self._api = (environ.get(API_VARIABLE) or API).rstrip("/")

    def check(self) -> str:
        """Check that this worker can stop or delete the node, and return the node's full name.

        Raises:
            CannotEnd: this worker can't stop or delete the node.
        """
        # The scope limits what the token may do. Without this check, a missing scope would be noticed only when the
        # node must stop.
        if _CLOUD_PLATFORM not in self._read_metadata(_SCOPES).split():
            raise CannotEnd("the node's service account lacks the scope cloud-platform")
        name = self._name()
        self._call("GET", name)
        return name

    def end(self, action: str) -> None:
        """Ask the API to stop or delete the node, and return once the request is accepted.

        Args:
            action: ``stop`` or ``delete``.

        Raises:
            CannotEnd: the request was not accepted.
        """
        name = self._name()
        try:
            if action == "stop":
                self._call("POST", f"{name}:stop", b"{}")
            else:
                self._call("DELETE", name)
        except CannotEnd as error:
            # A refusal is final only if the node is READY. In a transitional state such as STOPPING, it is temporary.
            error.is_refused = error.is_refused and self._call("GET", name).get("state") == "READY"
            raise

    def _name(self) -> str:
        # The attribute `tpu-env` names the node. Parts that it lacks are taken from the instance's general attributes.
        env = dict(_lines(self._read_metadata("instance/attributes/tpu-env")))
        project = env.get("CONSUMER_PROJECT_ID") or self._read_metadata("project/project-id")
        zone = env.get("ZONE") or self._read_metadata("instance/zone").rpartition("/")[2]
        node_id = env.get("NODE_ID") or self._read_metadata("instance/attributes/instance-id")
        parts = (project, zone, node_id)
        if not all(parts):
            raise CannotEnd("the metadata server does not say which node this is")
        return "projects/{}/locations/{}/nodes/{}".format(*(urllib.parse.quote(part, safe=":") for part in parts))

    def _read_metadata(self, path: str) -> str:
        """Read a value from the metadata server; return an empty string if there is none at this path."""
        try:
            return read_metadata(self._metadata, path)
        except urllib.error.HTTPError as error:
            with error:
                raise CannotEnd(f"the metadata server refuses {path} (HTTP {error.code})") from error
        except OSError as error:
            raise CannotEnd(f"there is no metadata server at {self._metadata}") from error

    def _token(self) -> str:
        try:
            return str(json.loads(self._read_metadata(_TOKEN))["access_token"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CannotEnd("the metadata server returned no token for the node's service account") from error

    def _call(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._safe_api()}/v2/{path}", data=body, method=method)
        request.add_header("Authorization", f"Bearer {self._token()}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=_API_S) as answer:
                return json_object(answer.read(_LONGEST_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                raise CannotEnd(_refusal(error), is_refused=error.code in (400, 412)) from error
        except OSError as error:
            raise CannotEnd(f"the Cloud TPU API is not responding: {error}") from error

    def _safe_api(self) -> str:
        """Return the API's address; reject any address outside Google and this machine, because it receives a token."""
        parts = urllib.parse.urlsplit(self._api)
        is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
        is_google = parts.scheme == "https" and (parts.hostname or "").endswith(".googleapis.com")
        if not is_google and not (parts.scheme == "http" and is_here):
            raise CannotEnd(f"no token is sent to the address in {API_VARIABLE}: only to googleapis.com by HTTPS")
        return self._api


def _lines(text: str) -> list[tuple[str, str]]:
    """Parse lines in the format ``KEY: 'value'``."""
    pairs = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip().strip("'\"")) for name, colon, value in pairs if colon]


def _refusal(error: urllib.error.HTTPError) -> str:
    response = error.read(_LONGEST_ANSWER).decode(errors="replace")
    message: Any = ""
    try:
        message = json.loads(response)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = response
    return f"the Cloud TPU API refuses (HTTP {error.code}): {' '.join(str(message).split())[:300]}"
