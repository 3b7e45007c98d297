"""The credentials for requests to Google Cloud: from a file chosen by the user, or Google's defaults.

Google's libraries are imported only when credentials are read, because the import is slow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jupyter_tpu.cloud.settings import CREDENTIALS_VARIABLE
from jupyter_tpu.errors import BadInput, Text

GOOGLE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
Place = Literal["chosen", "variable", "gcloud", "machine"]
_LARGEST_FILE = 1024 * 1024  # a key file has about 2,000 bytes
_TYPES = ("service_account", "authorized_user")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCredentials:
    """Credentials that were found but not yet checked with Google.

    Attributes:
        place: ``chosen`` (the file in $JUPYTER_TPU_CREDENTIALS), ``variable`` (the file in
            $GOOGLE_APPLICATION_CREDENTIALS), ``gcloud`` (saved by gcloud) or ``machine`` (from the current VM).
        file: the file with the credentials; empty for `machine`.
        account: the service account's address; empty if unknown without a request.
        project: the project specified in the credentials; may be empty.
    """

    place: Place
    file: str = ""
    account: str = ""
    project: str = ""


def load_credentials(
    scopes: Sequence[str], environment: Mapping[str, str], *, quota_project: str = ""
) -> tuple[Any, str]:
    """Return the credentials and their project (may be empty). This may query the machine's metadata server.

    Args:
        quota_project: the project whose quota requests use.

    Raises:
        BadInput: the chosen file can't be used.
        google.auth.exceptions.GoogleAuthError: there are no credentials.
    """
    import google.auth

    path = environment.get(CREDENTIALS_VARIABLE, "").strip()
    if not path:
        credentials, project = google.auth.default(scopes=scopes, quota_project_id=quota_project or None)
        return credentials, project or ""
    credentials = _of_file(read_credentials_file(path), path, scopes)
    named = str(getattr(credentials, "project_id", "") or "")
    return (credentials.with_quota_project(quota_project) if quota_project else credentials), named


def read_credentials_file(path: str) -> Mapping[str, Any]:
    """Return the content of a credentials file, which contains a secret: never show or log it.

    Raises:
        BadInput: the file can't be read, or contains credentials of an unsupported type.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            content = json.loads(file.read(_LARGEST_FILE))
        kind = content["type"]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:  # RuntimeError: ~ of an unknown user
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it isn't a JSON file of Google's"
        raise BadInput(
            Text("The credentials in {path} can't be read: {reason}.", path=path[:300], reason=why),
            exists="Nothing was changed.",
            hint="Choose the JSON key of a service account, or application_default_credentials.json.",
        ) from error
    if kind not in _TYPES:
        # other credential types can run programs and contact addresses, which an untrusted file must not do
        raise BadInput(
            Text(
                "{path} contains credentials of an unsupported type ({kind}).",
                path=path[:300],
                kind=repr(str(kind)[:40]),
            ),
            exists="Nothing was changed.",
            hint=Text("Set {variable} to the file before you start Jupyter.", variable=GOOGLE_VARIABLE),
        )
    found: Mapping[str, Any] = content
    return found


def _of_file(content: Mapping[str, Any], path: str, scopes: Sequence[str]) -> Any:
    from google.oauth2 import credentials, service_account

    try:
        if content["type"] == "service_account":
            return service_account.Credentials.from_service_account_info(content, scopes=scopes)  # type: ignore[no-untyped-call]  # it has no types
        return credentials.Credentials.from_authorized_user_info(content, scopes=scopes)  # type: ignore[no-untyped-call]  # it has no types
    except ValueError as error:  # a field is missing, or the key is invalid
        raise BadInput(
            Text("The credentials in {path} are incomplete.", path=path[:300]),
            hint="Download the file again.",
            raw=str(error),
        ) from error


def find_credentials(environment: Mapping[str, str]) -> FoundCredentials | None:
    """Return the credentials for requests, or None if there are none. This may query the machine's metadata server.

    Raises:
        BadInput: the chosen file can't be used.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    if chosen := environment.get(CREDENTIALS_VARIABLE, "").strip():
        content = read_credentials_file(chosen)
        _of_file(content, chosen, ())
        return _found("chosen", chosen, content)
    place, file = _default_place(environment)
    try:
        credentials, project = google.auth.default()
    except GoogleAuthError:
        return None
    account = str(getattr(credentials, "service_account_email", "") or "")
    return FoundCredentials(
        place=place, file=file, account="" if account == "default" else account, project=project or ""
    )


def _found(place: Place, file: str, content: Mapping[str, Any]) -> FoundCredentials:
    return FoundCredentials(
        place=place,
        file=file,
        account=str(content.get("client_email", "")),
        project=str(content.get("project_id", "")),
    )


def _default_place(environment: Mapping[str, str]) -> tuple[Place, str]:
    """Return the first place in which Google's library finds credentials."""
    if named := environment.get(GOOGLE_VARIABLE, ""):
        return "variable", named
    saved = gcloud_file(environment)
    return ("gcloud", str(saved)) if saved.is_file() else ("machine", "")


def gcloud_file(environment: Mapping[str, str]) -> Path:
    """Return the file in which `gcloud auth application-default login` saves credentials."""
    if folder := environment.get("CLOUDSDK_CONFIG", ""):
        return Path(folder) / "application_default_credentials.json"
    root = Path(environment["APPDATA"]) if os.name == "nt" else Path.home() / ".config"
    return root / "gcloud" / "application_default_credentials.json"
