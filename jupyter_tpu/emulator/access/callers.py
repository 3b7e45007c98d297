"""Allow only permitted callers to use the APIs, because a caller can run programs as the emulator's user."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

from google.rpc import code_pb2

from jupyter_tpu.emulator.access.access_tokens import bearer, is_of_worker
from jupyter_tpu.emulator.access.peers import Address, is_own_connection, shows_owners
from jupyter_tpu.emulator.resources.behaviours import assumed
from jupyter_tpu.emulator.resources.errors import Refusal, status_of
from jupyter_tpu.emulator.store.state_dir import TOKEN_FILE_VARIABLE, read_or_create

BY_USER, BY_TOKEN = "user", "token"
HARMLESS = ("Get", "List", "Stop", "Delete")
"""Prefixes of the methods that run no program on a worker."""


def usual_access() -> str:
    """Return the default way to recognise callers on this system."""
    return BY_USER if shows_owners() else BY_TOKEN


@dataclass(frozen=True, slots=True)
class Callers:
    """The access rule: admit the user's own connections or, with a `token_file`, clients that send its token."""

    token_file: Path | None = None

    @assumed(
        "who-may-call",
        "The TPU API, Google's other services, the control API and the workers accept connections only from root and "
        "from the user who runs the emulator. On Linux, a connection whose owner can't be determined is refused. On "
        "systems that do not show the owner of a connection (macOS), the APIs require a token from a file that only "
        "this user can read. There, a worker's own token allows only reading, stopping and deleting, and all users of "
        "the machine can read the workers' metadata and metrics. Google's APIs require credentials instead.",
    )
    def check(self, connection: tuple[Address, Address] | None, authorization: str, method: str) -> None:
        """Check whether a call is allowed; do this before any other step.

        Args:
            connection: the addresses of both ends, the caller's first.
            authorization: the ``Authorization`` header.
            method: the full name of the method.

        Raises:
            Refusal: 403 for another user's connection; 401 without the token.
        """
        if self.token_file is None:
            if connection is None or not is_own_connection(*connection):
                raise _of_another_user()
        elif not self._is_known(bearer(authorization), method):
            raise _without_token(self.token_file)

    def _is_known(self, token: str, method: str) -> bool:
        if is_of_worker(token):  # the signature is checked later, as for every call
            return method.rpartition(".")[2].startswith(HARMLESS)
        assert self.token_file is not None, "called only if there is one"
        return hmac.compare_digest(token.encode(errors="replace"), self.token_file.read_bytes())


def callers(access: str, state_dir: Path) -> Callers:
    """Return the access rule; `access` is BY_USER or BY_TOKEN. For BY_TOKEN, the token is in the state folder.

    Raises:
        OSError: the token can't be read or created.
    """
    if access == BY_USER:
        return Callers()
    path = state_dir / "access_token"
    read_or_create(path, lambda: secrets.token_urlsafe(32).encode("ascii"))
    return Callers(path)


def _of_another_user() -> Refusal:
    message = "This emulator serves only the user who runs it, and this connection is not known to be theirs."
    return Refusal(status_of(code_pb2.PERMISSION_DENIED, message))


def _without_token(path: Path) -> Refusal:
    message = (
        "This emulator requires the token in "
        f"{path}: send it as a bearer token; jupyter_tpu does so with {TOKEN_FILE_VARIABLE}={path}."
    )
    return Refusal(status_of(code_pb2.UNAUTHENTICATED, message))
