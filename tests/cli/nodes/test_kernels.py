"""`jupyter tpu kernels` beside kernels that other programs have started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest
from jupyter_client.manager import KernelManager

if TYPE_CHECKING:
    from terminal import Terminal

ZONE = "us-central1-a"
KERNEL_NAME = f"tpu-my-node-{ZONE}"


@pytest.fixture(scope="module", autouse=True)
def node(terminal: Terminal) -> None:
    """A READY node with its kernelspec."""
    created = terminal.tpu("create", "my-node", "--type", "v5litepod-8", "--zone", ZONE)
    assert created.returncode == 0, created.stderr


@contextmanager
def kernel_on_node(terminal: Terminal) -> Iterator[str]:
    """The id of a kernel that a program of the user has started."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in terminal.environment.items():
            patch.setenv(name, value)
        manager = KernelManager(kernel_name=KERNEL_NAME)
        manager.start_kernel()
        try:
            yield str(manager.kernel_id)
        finally:
            manager.shutdown_kernel(now=True)


def test_without_kernels_the_list_is_empty(terminal: Terminal) -> None:
    listed = terminal.tpu("kernels")

    assert (listed.returncode, listed.stdout) == (0, "")
    assert "No kernels are running" in listed.stderr
    assert "the cloud is emulated" in listed.stderr
    assert terminal.tpu_json("kernels", "list")["kernels"] == []


def test_a_kernel_is_listed_until_it_is_ended(terminal: Terminal) -> None:
    with kernel_on_node(terminal) as kernel_id:
        shown = terminal.tpu_json("kernels")
        (kernel,) = shown["kernels"]
        table = terminal.tpu("kernels").stdout.splitlines()

        unclear = terminal.tpu("kernels", "end", kernel_id)
        ended = terminal.tpu("kernels", "end", kernel_id[:8], "--yes")

        assert kernel["kernel_id"] == kernel_id
        assert (kernel["node_name"].rpartition("/")[2], kernel["worker_id"]) == ("my-node", 0)
        assert (kernel["notebook"], shown["errors"], shown["emulated"]) == (None, [], True)
        assert table[0].split() == ["KERNEL", "NOTEBOOK", "NODE", "ZONE", "STATE", "SINCE"]
        assert table[1].split()[:3] == [kernel_id, "my-node", ZONE]
        assert (unclear.returncode, "not confirmed" in unclear.stderr) == (1, True)
        assert ended.returncode == 0, ended.stderr
        assert "The node is still READY and billed" in ended.stdout
        assert not psutil.pid_exists(kernel["pid"])
        assert terminal.tpu_json("kernels")["kernels"] == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("end",), "No kernel was given"),
        (("end", "nothing", "--yes"), "No kernel has an ID"),
        (("list", "something"), "does not take a kernel ID"),
    ],
)
def test_a_kernel_that_is_not_named_well_is_refused(terminal: Terminal, argv: tuple[str, ...], words: str) -> None:
    refused = terminal.tpu("kernels", *argv)

    assert (refused.returncode, words in refused.stderr) == (1, True), refused.stderr


def test_a_node_that_cannot_be_reached_is_named(terminal: Terminal) -> None:
    name = terminal.tpu_json("describe", "my-node")["name"]
    terminal.cloud.close_ssh(name)
    try:
        listed = terminal.tpu("kernels")
        shown = terminal.tpu_json("kernels")
    finally:
        terminal.cloud.open_ssh(name)

    assert listed.returncode == 0
    assert "my-node" in listed.stderr
    assert [error["code"] for error in shown["errors"]] == ["worker_unreachable"]
