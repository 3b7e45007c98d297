"""The route to a worker: the user's own ``~/.ssh/config`` overrides the address from the cloud.

As with plain ssh, the user's file takes precedence: an entry ``Host *.tpu`` may set HostName, Port, User, IdentityFile,
ProxyJump and ProxyCommand. The user's file never weakens the host key check.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import asyncssh

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.ssh.address import WorkerAddress

Files = tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route to a worker, with the user's configuration applied.

    Attributes:
        host: the destination host, for messages; asyncssh reads it from `files`.
        files: configuration files for asyncssh, which reads the remaining settings itself.
        identities: existing private key files from the user's configuration.
        proxy_argv: the command whose standard input and output carry the connection; empty for a direct connection.
        jumps: whether the route goes through other SSH servers (ProxyJump).
        family, local_addr: as in `loop.create_connection`, for a direct connection.
    """

    host: str
    port: int
    user: str
    files: Files
    identities: tuple[str, ...]
    proxy_argv: tuple[str, ...]
    jumps: bool
    family: int
    local_addr: tuple[str, int] | None


def default_config_files() -> Files:
    """Return ``~/.ssh/config`` if it exists."""
    path = Path("~/.ssh/config").expanduser()
    return (path,) if path.is_file() else ()


@contextmanager
def resolved_route(address: WorkerAddress, proxy_command: str | None, files: Files) -> Iterator[Route]:
    """Determine the route to `address`; its `files` exist only within the context.

    Raises:
        BadInput: the configuration or the proxy command is invalid.
    """
    try:
        # Read the files twice: if the user sets no HostName, our own file supplies it for %h the second time.
        named = _read(address.alias, files)
        host = cast(str, named.get("Hostname", address.host))
        port = cast(int, named.get("Port", address.port))
        user = cast(str, named.get("User", address.user))
        with _host_name_file(address.alias, host) as first:
            settings = _read(address.alias, (first, *files), username=user, port=port)
            argv = _proxy_argv(proxy_command, address.alias, host, port, user) or settings.proxy_argv
            yield Route(
                host=host,
                port=port,
                user=user,
                files=(first, *files),
                identities=settings.identities,
                proxy_argv=argv,
                jumps=settings.jumps,
                family=settings.family,
                local_addr=settings.local_addr,
            )
    except (asyncssh.ConfigParseError, asyncssh.IllegalUserName) as error:
        raise BadInput(
            "Your ssh configuration cannot be used for this worker.",
            hint=Text(
                "Run `ssh -G {worker}` to see how ssh reads your configuration, then correct it.", worker=address.alias
            ),
            raw=str(error),
        ) from error


class _Settings:
    """The few settings in the user's ssh configuration that jupyter_tpu reads itself."""

    def __init__(self, options: asyncssh.SSHClientConnectionOptions) -> None:
        self._config = options.config
        self.proxy_argv = tuple(options.proxy_command or ())
        self.jumps = bool(options.tunnel)
        self.family: int = options.family
        self.local_addr: tuple[str, int] | None = options.local_addr

    def get(self, option: str, default: object) -> object:
        """Return an option from the user's configuration, or `default`."""
        return self._config.get(option, default)

    @property
    def identities(self) -> tuple[str, ...]:
        """The existing files among the user's IdentityFile entries."""
        # Ignore a missing file, like plain ssh; asyncssh would fail.
        named = cast("list[str]", self.get("IdentityFile", []))
        paths = (Path(name).expanduser() for name in named)
        return tuple(str(path) for path in paths if path.is_file())


def _read(alias: str, files: Files, **known: Any) -> _Settings:
    options = asyncssh.SSHClientConnectionOptions(
        config=[str(path) for path in files], host=alias, client_keys=None, agent_path=None, **known
    )
    return _Settings(options)


@contextmanager
def _host_name_file(alias: str, host: str) -> Iterator[Path]:
    """Write a configuration file with the HostName of `alias`, so that %h in the user's ProxyCommand is the address."""
    with tempfile.NamedTemporaryFile("w", prefix="jupyter-tpu-", suffix=".conf") as file:
        file.write(f"Host {alias}\n  HostName {host}\n")
        file.flush()
        yield Path(file.name)


def _proxy_argv(command: str | None, alias: str, host: str, port: int, user: str) -> tuple[str, ...]:
    """Split the command into arguments, then fill in the tokens, so that no value is ever parsed as shell syntax."""
    if not command:
        return ()
    tokens = {"%%": "%", "%h": host, "%p": str(port), "%n": alias, "%r": user}
    return tuple(_filled(word, tokens) for word in _split(command))


def _split(command: str) -> Sequence[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise BadInput(
            Text("The proxy command {command} is invalid: {error}.", command=repr(command), error=error),
            hint="Check the quotation marks in the proxy command.",
        ) from error


def _filled(word: str, tokens: dict[str, str]) -> str:
    # Replace in one pass, so that a % in a value is not interpreted as a token.
    pieces: list[str] = []
    while word:
        size = 2 if word.startswith("%") else 1
        pieces.append(tokens.get(word[:size], word[:size]))
        word = word[size:]
    return "".join(pieces)
