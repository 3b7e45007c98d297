from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from jupyter_tpu.errors import BadInput, HostKeyChanged, WorkerUnreachable
from jupyter_tpu.ssh import HostKeyStore, fingerprint


def new_public_key(kind: str = "ssh-ed25519") -> str:
    return str(asyncssh.generate_private_key(kind).export_public_key().decode().strip())


@pytest.fixture
def store(tmp_path: Path) -> HostKeyStore:
    return HostKeyStore(tmp_path / "ssh" / "known_hosts")


def test_the_first_published_key_is_pinned(store: HostKeyStore) -> None:
    key = new_public_key()
    assert store.pin("tpu-1-w0", [key]) == (key,)
    assert HostKeyStore(store.path).pinned("tpu-1-w0") == (key,)


def test_a_pinned_key_stays_while_the_cloud_is_silent(store: HostKeyStore) -> None:
    key = new_public_key()
    store.pin("tpu-1-w0", [key])
    assert store.pin("tpu-1-w0", []) == (key,)


def test_another_published_key_is_refused_with_both_fingerprints(store: HostKeyStore) -> None:
    old, new = new_public_key(), new_public_key()
    store.pin("tpu-1-w0", [old])
    with pytest.raises(HostKeyChanged) as caught:
        store.pin("tpu-1-w0", [new])
    assert fingerprint(old) in str(caught.value)
    assert fingerprint(new) in str(caught.value)
    assert str(store.path) in caught.value.hint
    assert store.pinned("tpu-1-w0") == (old,)


def test_a_key_of_another_type_that_is_published_later_is_not_accepted(store: HostKeyStore) -> None:
    key, other = new_public_key(), new_public_key("ecdsa-sha2-nistp256")
    store.pin("tpu-1-w0", [key])
    assert store.pin("tpu-1-w0", [key, other]) == (key,)
    assert store.pinned("tpu-1-w0") == (key,)


def test_nothing_is_trusted_before_the_cloud_has_told_a_key(store: HostKeyStore) -> None:
    with pytest.raises(WorkerUnreachable, match="not published its SSH host keys yet"):
        store.pin("tpu-1-w0", [])
    assert not store.path.exists()


def test_a_node_made_again_has_pins_of_its_own(store: HostKeyStore) -> None:
    old, new = new_public_key(), new_public_key()
    store.pin("tpu-1-w0", [old])
    assert store.pin("tpu-2-w0", [new]) == (new,)


@pytest.mark.parametrize("lie", ["", "ssh-ed25519", "ssh-ed25519 AAAA\n* ssh-ed25519 BBBB", "<script>"])
def test_what_is_no_public_key_never_reaches_the_file(store: HostKeyStore, lie: str) -> None:
    with pytest.raises(BadInput, match="not an SSH public key"):
        store.pin("tpu-1-w0", [lie])
    assert not store.path.exists()


def test_the_comment_of_a_published_key_is_dropped(store: HostKeyStore) -> None:
    key = new_public_key()
    assert store.pin("tpu-1-w0", [f"{key} root@worker"]) == (key,)


def test_a_line_that_a_full_disk_cut_off_is_no_pin(store: HostKeyStore) -> None:
    key, other = new_public_key(), new_public_key()
    store.pin("tpu-1-w0", [key])
    store.path.write_bytes(store.path.read_bytes()[:-20])
    assert store.pin("tpu-1-w0", [key]) == (key,)
    assert store.pin("tpu-2-w0", [other]) == (other,)
    assert (store.pinned("tpu-1-w0"), store.pinned("tpu-2-w0")) == ((key,), (other,))


def test_bytes_that_are_no_text_hide_no_other_pin(store: HostKeyStore) -> None:
    key = new_public_key()
    store.pin("tpu-1-w0", [key])
    store.path.write_bytes(b"\xf8\xff\x00\n" + store.path.read_bytes())
    assert store.pin("tpu-1-w0", []) == (key,)
