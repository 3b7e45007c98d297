"""`jupyter tpu ports`: the ports of a node that the user opens."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"


@pytest.fixture(scope="module")
def node(terminal: Terminal) -> str:
    created = terminal.tpu("create", "my-node", "--zone", ZONE, "--type", "v5litepod-8", "--yes")
    assert created.returncode == 0, created.stderr
    return "my-node"


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which a program of the user listens; the emulated node is this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_a_port_is_listed_opened_and_closed(terminal: Terminal, node: str, port: int) -> None:
    def row() -> list[str]:
        listed = terminal.tpu("ports", node)
        assert listed.returncode == 0, listed.stderr
        return next(line.split() for line in listed.stdout.splitlines() if line.startswith(str(port)))

    assert row()[:2] == [str(port), "no"]
    opened = terminal.tpu("ports", node, "open", str(port))
    assert opened.stdout == f"Port {port} of my-node is open.\n", opened.stderr
    assert f"jupyter-tpu/v1/nodes/{ZONE}/my-node/ports/{port}/" in opened.stderr
    assert row()[:2] == [str(port), "yes"]
    closed = terminal.tpu("ports", node, "close", str(port), "--json")
    rows = {row["port"]: row for row in json.loads(closed.stdout)["ports"]}
    assert not rows[port]["opened"]


def test_a_port_must_be_given_and_valid(terminal: Terminal, node: str) -> None:
    missing = terminal.tpu("ports", node, "open")
    assert missing.returncode == 1
    assert "No port was given." in missing.stderr
    assert "whole number from 1 to 65535" in terminal.tpu("ports", node, "open", "70000").stderr
