"""The configuration for connecting to a worker with plain ``ssh`` and VS Code Remote-SSH, with the same host key check.

Pure: converts records to text. The caller decides where to write the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.ssh.address import WorkerAddress


def render_ssh_config(
    addresses: Iterable[WorkerAddress], *, identity_file: Path, known_hosts_file: Path, proxy_command: str = ""
) -> str:
    """Return the Host entries for all `addresses`, as a file for an Include in ``~/.ssh/config``."""
    header = "# Written by `jupyter tpu ssh-config`; changes are lost when it runs again.\n"
    entries = (host_entry(address, identity_file, known_hosts_file, proxy_command) for address in addresses)
    return "\n".join((header, *entries))


def host_entry(address: WorkerAddress, identity_file: Path, known_hosts_file: Path, proxy_command: str = "") -> str:
    """Return one Host entry, with which ssh accepts only the host keys pinned in `known_hosts_file`."""
    settings = [
        ("HostName", address.host),
        ("Port", str(address.port)),
        ("User", address.user),
        ("IdentityFile", _quoted(identity_file)),
        ("IdentitiesOnly", "yes"),  # sshd closes the connection after several rejected keys of the user's agent
        ("UserKnownHostsFile", _quoted(known_hosts_file)),
        ("HostKeyAlias", address.host_key_alias or address.alias),
        ("StrictHostKeyChecking", "yes"),
        ("ServerAliveInterval", "15"),  # NAT gateways drop idle connections within minutes
    ]
    if proxy_command:
        settings.append(("ProxyCommand", _one_line(proxy_command)))
    return "".join((f"Host {address.alias}\n", *(f"    {name} {value}\n" for name, value in settings)))


def _quoted(path: Path) -> str:
    """Return a path as an ssh_config value, in quotes and with % doubled, because ssh expands tokens in it."""
    text = _one_line(str(path)).replace("%", "%%")
    if '"' in text:
        raise BadInput(Text("ssh cannot use the path {path}: it contains a quotation mark.", path=text))
    return f'"{text}"'


def _one_line(text: str) -> str:
    if any(not char.isprintable() for char in text):
        raise BadInput(
            Text("{path} contains characters that are not allowed in an ssh configuration.", path=repr(text))
        )
    return text
