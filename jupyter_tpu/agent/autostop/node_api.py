"""This worker's own node: found through the metadata server, ended through the Cloud TPU API with the worker's token.

No credential lies on the worker: the metadata server gives a token of the node's service account when it is asked.
Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.agent.recording.jupyter_messages import json_object

API = "https://tpu.googleapis.com/"
API_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"
"""Where the API is, for gcloud and for us, when it is not Google's."""

_METADATA_VARIABLE = "GCE_METADATA_HOST"
_METADATA_HOST = "metadata.google.internal"
_SCOPES = "instance/service-accounts/default/scopes"
_TOKEN = "instance/service-accounts/default/token"
_CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_METADATA_S = 5.0
_API_S = 30.0
_LONGEST_ANSWER = 1024 * 1024


class CannotEnd(Exception):
    """The node cannot be ended from here; the text says why.

    Attributes:
        is_refused: the API refused this action although the node is READY, so asking again will not help.
    """

    def __init__(self, reason: str, *, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.is_refused = is_refused


class OwnNode:
    """The node that this machine is a worker of; `environ` may name another metadata server and another API."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._metadata = environ.get(_METADATA_VARIABLE) or _METADATA_HOST
        self._api = (environ.get(API_VARIABLE) or API).rstrip("/")

    def check(self) -> str:
        """Look whether the node could be ended; its full name.

        Raises:
            CannotEnd: it could not.
        """
        if _CLOUD_PLATFORM not in self._told(_SCOPES).split():
            raise CannotEnd("the node's service account lacks the scope cloud-platform")
        name = self._name()
        self._call("GET", name)
        return name

    def end(self, action: str) -> None:
        """Ask for the end: ``stop`` or ``delete``.

        Raises:
            CannotEnd: it was not accepted.
        """
        name = self._name()
        try:
            if action == "stop":
                self._call("POST", f"{name}:stop", b"{}")
            else:
                self._call("DELETE", name)
        except CannotEnd as error:
            error.is_refused = error.is_refused and self._call("GET", name).get("state") == "READY"
            raise

    def _name(self) -> str:
        env = dict(_lines(self._told("instance/attributes/tpu-env")))
        project = env.get("CONSUMER_PROJECT_ID") or self._told("project/project-id")
        zone = env.get("ZONE") or self._told("instance/zone").rpartition("/")[2]
        node_id = env.get("NODE_ID") or self._told("instance/attributes/instance-id")
        parts = (project, zone, node_id)
        if not all(parts):
            raise CannotEnd("the metadata server does not tell which node this is")
        return "projects/{}/locations/{}/nodes/{}".format(*(urllib.parse.quote(part, safe=":") for part in parts))

    def _told(self, path: str) -> str:
        """A value of the metadata server; empty where there is none of this name."""
        request = urllib.request.Request(
            f"http://{self._metadata}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}
        )
        try:
            # a proxy of the user's has no business here
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                request, timeout=_METADATA_S
            ) as said:
                return str(said.read(_LONGEST_ANSWER).decode(errors="replace"))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return ""
                raise CannotEnd(f"the metadata server refuses to tell {path} (HTTP {error.code})") from error
        except OSError as error:
            raise CannotEnd(f"there is no metadata server at {self._metadata}") from error

    def _token(self) -> str:
        try:
            return str(json.loads(self._told(_TOKEN))["access_token"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CannotEnd("the metadata server gives no token of the node's service account") from error

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
            raise CannotEnd(f"the Cloud TPU API does not answer: {error}") from error

    def _safe_api(self) -> str:
        """The API's address, unless somebody else than Google could read a token on its way there."""
        parts = urllib.parse.urlsplit(self._api)
        is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
        is_google = parts.scheme == "https" and (parts.hostname or "").endswith(".googleapis.com")
        if not is_google and not (parts.scheme == "http" and is_here):
            raise CannotEnd(f"{API_VARIABLE} names an address to which no token may be sent")
        return self._api


def _lines(text: str) -> list[tuple[str, str]]:
    """``KEY: 'value'`` on each line."""
    pairs = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip().strip("'\"")) for name, colon, value in pairs if colon]


def _refusal(error: urllib.error.HTTPError) -> str:
    said = error.read(_LONGEST_ANSWER).decode(errors="replace")
    message: Any = ""
    try:
        message = json.loads(said)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = said
    return f"the Cloud TPU API refuses (HTTP {error.code}): {' '.join(str(message).split())[:300]}"
