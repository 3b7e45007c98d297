from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import asyncssh
import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.ssh import HostKeyStore, UserKey, WorkerAddress, render_ssh_config

ADDRESS = WorkerAddress(
    host="203.0.113.7",
    port=22,
    user="ada",
    host_keys=("ssh-ed25519 AAAA",),
    alias="my-node.us-central1-a.tpu",
    host_key_alias="tpu-4711-w0",
)


def test_an_entry_says_where_who_and_which_host_key() -> None:
    text = render_ssh_config([ADDRESS], identity_file=Path("/k"), known_hosts_file=Path("/h"))
    assert "Host my-node.us-central1-a.tpu\n" in text
    for line in ("HostName 203.0.113.7", "Port 22", "User ada", "HostKeyAlias tpu-4711-w0", "IdentitiesOnly yes"):
        assert f"    {line}\n" in text
    assert "    StrictHostKeyChecking yes\n" in text


def test_a_line_break_cannot_add_a_setting() -> None:
    with pytest.raises(BadInput):
        render_ssh_config([ADDRESS], identity_file=Path("/k\nProxyCommand id"), known_hosts_file=Path("/h"))
    with pytest.raises(BadInput):
        render_ssh_config(
            [ADDRESS], identity_file=Path("/k"), known_hosts_file=Path("/h"), proxy_command="a\n  ForwardAgent yes"
        )


async def plain_ssh(config: Path, alias: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        "ssh",
        *("-F", str(config), "-o", "BatchMode=yes", alias, "echo", "hello"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode, out.decode(), errors.decode()


def write_files(folder: Path, address: WorkerAddress, key: UserKey) -> Path:
    known_hosts = folder / "known hosts 100%"
    HostKeyStore(known_hosts).pin(address.host_key_alias or address.alias, address.host_keys)
    config = folder / "config"
    config.write_text(render_ssh_config([address], identity_file=key.private_path, known_hosts_file=known_hosts))
    return config


@pytest.mark.system("sshd")
async def test_plain_ssh_logs_in_with_what_we_write(
    openssh_address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    config = write_files(tmp_path, openssh_address, user_key)
    status, out, errors = await plain_ssh(config, openssh_address.alias)
    assert (status, out) == (0, "hello\n"), errors


@pytest.mark.system("sshd")
async def test_plain_ssh_refuses_another_host_key(
    openssh_address: WorkerAddress, user_key: UserKey, tmp_path: Path
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    config = write_files(tmp_path, dataclasses.replace(openssh_address, host_keys=(other,)), user_key)
    status, out, errors = await plain_ssh(config, openssh_address.alias)
    assert (status, out) == (255, "")
    assert "Host key verification failed" in errors
