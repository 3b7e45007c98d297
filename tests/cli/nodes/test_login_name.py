"""The login name of a new node goes into its metadata: it must not be able to bring anything else along."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from terminal import Terminal

V5E = ("--type", "v5litepod-8", "--zone", "us-central1-a")


@pytest.mark.parametrize("name", ["root;x", "me:ssh-ed25519 AAAA\nmallory", "two words", "-oProxyCommand=x"])
def test_a_login_name_that_is_none_is_refused_before_anything_is_asked_for(terminal: Terminal, name: str) -> None:
    refused = terminal.tpu("create", "x", *V5E, f"--ssh-user={name}", "--json")

    assert refused.returncode == 1
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "bad_input"
    assert "is not a valid login name" in error["message"]
    assert terminal.cloud.ledger()["nodes"] == []


def test_a_login_name_of_ones_own_is_put_on_the_node(terminal: Terminal) -> None:
    terminal.tpu("create", "x", *V5E, "--ssh-user", "ada")
    try:
        (host,) = terminal.tpu_json("ssh-config", "x")["hosts"]
        assert host["user"] == "ada"
    finally:
        terminal.tpu("delete", "x", "--yes")
