"""A REST client for Google services that the Cloud TPU client doesn't cover.

Everything here blocks, so call it in a thread. An emulator serves all services at one address; see `emulator_address`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.auth import exceptions as auth_exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from jupyter_tpu.cloud.credentials import load_credentials
from jupyter_tpu.cloud.emulator_address import ADDRESS_VARIABLE, emulator_address, emulator_authorization
from jupyter_tpu.cloud.messages import LOGIN_ACTIONS, LOGIN_HINT
from jupyter_tpu.cloud.settings import CloudSettings
from jupyter_tpu.error_actions import enable_api
from jupyter_tpu.errors import (
    ApiDisabled,
    CloudRefused,
    CloudUnavailable,
    CredentialsMissing,
    PermissionDenied,
    RateExceeded,
    Text,
    TpuError,
)

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
# Time limit for a server that hangs, as for reads over gRPC (`cloud.call_policy`).
_TIMEOUT_S = 30.0
# Delays after a 503, only for reads: a change must not be sent twice if its response is lost. As over gRPC, report a
# longer outage soon, because a user may be waiting.
_RETRY_DELAYS_S = (0.4, 0.8, 1.6)
# Maximum number of pages of a list, in case the last page never arrives.
_MOST_PAGES = 1000
# Characters of a response that an error includes for logs and bug reports.
_LONGEST_RAW = 10_000
_DISABLED = re.compile(r"has not been used in project|API .*is disabled", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service: its title, such as ``Cloud Quotas API``, its host name, and the IAM role required for reading."""

    title: str
    host: str
    role: str


class RestClient:
    """A client for one service and one project; close it after use."""

    def __init__(self, session: Any, base: str, service: Service, project: str) -> None:
        self._session = session
        self._base = base
        self._service = service
        self._project = project

    @classmethod
    def open(cls, settings: CloudSettings, service: Service, environment: Mapping[str, str]) -> RestClient:
        """Create a client with the user's credentials, or without credentials for the emulator.

        Raises:
            CredentialsMissing: there are no credentials.
            CloudUnavailable: the address of the emulator's REST services is not set.
        """
        if settings.is_emulated:
            session = _session(AnonymousCredentials())  # type: ignore[no-untyped-call]  # it has no types
            session.headers.update(emulator_authorization(environment))
            session.trust_env = False  # ignore a proxy from the environment
            return cls(session, _emulator(settings, environment), service, settings.project)
        try:
            # Google counts a user's requests against a quota project. Some services reject requests without a quota
            # project.
            credentials, _ = load_credentials(_SCOPES, environment, quota_project=settings.project)
        except auth_exceptions.GoogleAuthError as error:
            raise _not_signed_in(error) from error
        return cls(_session(credentials), f"https://{service.host}", service, settings.project)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """Yield all pages of a list; raise the same errors as `read`."""
        token = ""
        for _ in range(_MOST_PAGES):
            page = self.read(path, {**query, **({"pageToken": token} if token else {})})
            yield page
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
        raise self._unreadable(f"it has more than {_MOST_PAGES} pages")

    def read(self, path: str, query: Mapping[str, str]) -> Mapping[str, Any]:
        """Get one JSON object.

        Raises:
            ApiDisabled, PermissionDenied, RateExceeded, CloudRefused, CredentialsMissing: the request was refused.
            CloudUnavailable: there was no response, or the response can't be read.
        """
        status, text = self._send("GET", path, query, None)
        for delay_s in _RETRY_DELAYS_S:
            if status == 503:
                time.sleep(delay_s)
                status, text = self._send("GET", path, query, None)
        if status != 200:
            raise self.refusal(status, text)
        return self.parsed(text)

    def post(self, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, str]:
        """Send a POST request once; return the response's HTTP status and text. Pass them to `parsed` or `refusal`.

        Raises:
            CloudUnavailable: there was no response, so the outcome is unknown.
        """
        return self._send("POST", path, query, body)

    def put(self, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
        """Send a PUT request, which replaces a resource. Returns and raises the same as `post`."""
        return self._send("PUT", path, {}, body)

    def _send(self, verb: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None) -> tuple[int, str]:
        try:
            answer = self._session.request(
                # Don't follow redirects, which could send the credentials to another host.
                verb,
                f"{self._base}{path}",
                params=dict(query),
                json=body,
                timeout=_TIMEOUT_S,
                allow_redirects=False,
            )
            return int(answer.status_code), str(answer.text)
        except auth_exceptions.GoogleAuthError as error:
            raise _not_signed_in(error) from error
        except OSError as error:  # the base class of all errors of the requests library
            raise CloudUnavailable(
                Text("The {service} is not responding.", service=self._service.title),
                hint="Check the network connection and proxy settings; if both are fine, try again in a minute.",
                raw=str(error)[:_LONGEST_RAW],
            ) from error

    def parsed(self, text: str) -> Mapping[str, Any]:
        """Parse a response as a JSON object; raise `CloudUnavailable` if it isn't one."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(text) from error
        if not isinstance(body, dict):
            raise self._unreadable(text)
        return body

    def _unreadable(self, text: str) -> TpuError:
        return CloudUnavailable(
            Text("The response from the {service} cannot be read.", service=self._service.title),
            hint="Try again in a minute.",
            raw=text[:_LONGEST_RAW],
        )

    def refusal(self, status: int, text: str) -> TpuError:
        """Return the error for a response with a status other than 200."""
        error = self._refusal_of(status, text)
        error.raw = text[:_LONGEST_RAW]
        return error

    def _refusal_of(self, status: int, text: str) -> TpuError:
        title, host, project = self._service.title, self._service.host, self._project
        if status == 401:
            return CredentialsMissing(
                "Google Cloud does not accept your credentials.", hint=LOGIN_HINT, actions=LOGIN_ACTIONS
            )
        if status == 403 and ("SERVICE_DISABLED" in text or _DISABLED.search(text)):
            return ApiDisabled(
                Text("The {service} is not enabled in project {project}.", service=title, project=project),
                hint=Text(
                    "Run `gcloud services enable {host} --project={project}`, wait a few minutes and try again.",
                    host=host,
                    project=project,
                ),
                actions=(enable_api(project, host),),
            )
        if status == 403:
            return PermissionDenied(
                Text(
                    "You don't have permission to read from the {service} in project {project}.",
                    service=title,
                    project=project,
                ),
                hint=Text("Ask an owner of the project for the role {role}.", role=self._service.role),
            )
        if status == 429:
            return RateExceeded(
                Text("Too many requests to the {service} in a short time.", service=title),
                hint="Try again in a minute.",
            )
        if status >= 500:
            return CloudUnavailable(
                Text("The {service} had an internal error.", service=title), hint="Try again in a minute."
            )
        return CloudRefused(
            Text("The {service} refused the request ({status}).", service=title, status=status),
            hint=Text("Message from the cloud: {quotation}", quotation=_message_in(text)[:300]),
        )


def _session(credentials: Any) -> Any:
    return AuthorizedSession(credentials)  # type: ignore[no-untyped-call]  # it has no types


def _emulator(settings: CloudSettings, environment: Mapping[str, str]) -> str:
    address = emulator_address(settings, environment)
    if not address:
        raise CloudUnavailable(
            "The address of the emulated cloud's REST services is not set.",
            hint=Text(
                "Set {variable} to the address that the emulator printed when it started.", variable=ADDRESS_VARIABLE
            ),
        )
    return address


def _not_signed_in(error: Exception) -> TpuError:
    return CredentialsMissing(
        "No Google Cloud credentials were found, or they cannot be used.",
        exists="No request was sent to the cloud.",
        hint=LOGIN_HINT,
        actions=LOGIN_ACTIONS,
        raw=str(error)[:_LONGEST_RAW],
    )


def _message_in(text: str) -> str:
    """Return the message in Google's error envelope, or the whole text on one line."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return " ".join(text.split())
