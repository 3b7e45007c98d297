"""Pinned host keys: the first keys that the cloud publishes for a node are the only accepted ones.

The pins are a plain OpenSSH ``known_hosts`` file, so ``ssh`` and VS Code Remote-SSH check against the same keys. Each
line has the node's uid as its host name, never an address, because other nodes may reuse an address.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jupyter_tpu.errors import BadInput, HostKeyChanged, Text, WorkerUnreachable


def fingerprint(host_key: str) -> str:
    """Return the SHA-256 fingerprint of an OpenSSH public key line, as `ssh-keygen -l` shows it."""
    import asyncssh

    try:
        return asyncssh.import_public_key(host_key).get_fingerprint()
    except asyncssh.KeyImportError:
        return "(not a public key)"


class HostKeyStore:
    """The ``known_hosts`` file at `path`; created when the first key is pinned."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pinned(self, alias: str) -> tuple[str, ...]:
        """Return the host keys pinned under `alias`; ignore damaged lines, such as a line cut off by a full disk."""
        entries = (line.split(maxsplit=1) for line in self._text().splitlines())
        ours = (entry[1] for entry in entries if len(entry) == 2 and entry[0] == alias)
        return tuple(key for key in ours if _is_public_key(key))

    def pin(self, alias: str, published: Iterable[str]) -> tuple[str, ...]:
        """Return the keys to accept for `alias`; if no key is pinned, pin the keys that the cloud has `published`.

        Raises:
            HostKeyChanged: the cloud publishes a key other than the pinned one.
            WorkerUnreachable: no key is pinned or published, so no key can be trusted.
        """
        keys = tuple(_canonical(key) for key in published)
        pinned = self.pinned(alias)
        if not pinned:
            return self._pin_first(alias, keys)
        self._refuse_change(alias, pinned, keys)
        return pinned

    def _pin_first(self, alias: str, keys: tuple[str, ...]) -> tuple[str, ...]:
        if not keys:
            raise WorkerUnreachable(
                "The worker has not published its SSH host keys yet, so its identity cannot be verified.",
                hint="A new node publishes its host keys within a minute or two after it becomes READY. "
                "Try again then.",
            )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        self.path.chmod(0o600)  # earlier versions left the file readable for others
        # if a full disk truncated the last line, start a new line
        cut_off = self._text()[-1:] not in ("", "\n")
        with self.path.open("a") as file:
            file.write("\n" * cut_off + "".join(f"{alias} {key}\n" for key in keys))
        return keys

    def _refuse_change(self, alias: str, pinned: tuple[str, ...], keys: tuple[str, ...]) -> None:
        known = {_type(key): key for key in pinned}
        # A key of a type that isn't pinned does not count as a change. It isn't accepted either, because only pinned
        # keys are.
        for key in keys:
            if known.get(_type(key), key) != key:
                raise host_key_changed(alias, (known[_type(key)],), key, self.path)

    def _text(self) -> str:
        try:
            return self.path.read_text(errors="replace")
        except FileNotFoundError:
            return ""


def host_key_changed(
    alias: str, pinned: Iterable[str], shown: str, path: Path | None = None, *, name: str = ""
) -> HostKeyChanged:
    """Return the error for a worker whose host key is not the one pinned under `alias`.

    Args:
        shown: the key that the worker now presents, or that the cloud now publishes.
        path: the file with the pins; None means the file in Jupyter's data folder.
        name: the worker's name for users; if empty, `alias` is used.
    """
    expected = ", ".join(fingerprint(key) for key in pinned)
    file = path or "the known_hosts file in Jupyter's data folder"
    return HostKeyChanged(
        Text("The SSH host key of {worker} does not match the pinned key.", worker=name or alias),
        exists=Text(
            "Expected {expected}, found {found}. Nothing was sent to the worker; the pinned key is unchanged.",
            expected=expected,
            found=fingerprint(shown),
        ),
        hint=Text(
            "Another machine may be impersonating this worker. If you recreated the worker's SSH keys "
            "yourself, remove the lines for {alias} from {file} and connect again; otherwise delete the node.",
            alias=alias,
            file=file,
        ),
    )


def _canonical(key: str) -> str:
    """Return a public key without its comment, which must not get into the file with the pinned host keys."""
    import asyncssh

    parts = key.split()
    if len(parts) < 2:
        raise BadInput(
            Text("{key} is not an SSH public key.", key=repr(key[:80])),
            hint="Check the SSH host keys in the node's guest attributes.",
        )
    try:
        asyncssh.import_public_key(" ".join(parts[:2]))
    except asyncssh.KeyImportError as error:
        raise BadInput(Text("{key} is not an SSH public key.", key=repr(key[:80])), raw=str(error)) from error
    return " ".join(parts[:2])


def _is_public_key(key: str) -> bool:
    try:
        return bool(_canonical(key))
    except BadInput:
        return False


def _type(key: str) -> str:
    return key.split()[0]
