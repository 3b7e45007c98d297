"""A worker's address, validated as safe in a command line, a configuration file and a log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jupyter_tpu.errors import BadInput, Text

# Host names have at most 253 characters (RFC 1035), and Linux login names at most 32 (useradd).
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}|[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9]{1,15})?")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAddress:
    """The address of a worker, with the data to verify its identity.

    Attributes:
        host: IP address or host name.
        host_keys: OpenSSH public keys; the worker must present one of them.
        alias: the name shown to users, such as ``my-node.us-central1-a.tpu``, which entries in ``~/.ssh/config`` can
            match.
        host_key_alias: the name under which `host_keys` are pinned; contains the node's uid, so that a recreated node
            with the same name or address counts as a different node.

    Raises:
        BadInput: a part contains characters that are special to a shell or to ssh.
    """

    host: str
    port: int
    user: str
    host_keys: tuple[str, ...]
    alias: str
    host_key_alias: str = ""

    def __post_init__(self) -> None:
        _require(_HOST, self.host, "host address")
        require_login_name(self.user)
        _require(_ALIAS, self.alias, "host alias")
        _require(_ALIAS, self.host_key_alias or self.alias, "host key alias")
        if not 0 < self.port < 65536:
            raise BadInput(Text("{port} is not a TCP port.", port=self.port), hint="Use a number from 1 to 65535.")


def require_login_name(name: str) -> None:
    """Reject an invalid login name, such as one with a line break, which would add a line to ssh's configuration.

    Raises:
        BadInput: it contains characters that are invalid in a login name.
    """
    _require(_USER, name, "login name")


def _require(pattern: re.Pattern[str], value: str, what: str) -> None:
    if not pattern.fullmatch(value):
        raise BadInput(
            Text("{value} is not a valid {what}.", value=repr(value[:80]), what=what),
            hint="Use letters, digits, dots, hyphens and underscores.",
        )
