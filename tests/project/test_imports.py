"""What is heavy is imported when it is used: a start or a command that needs none of it must not wait for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu import cli

HEAVY = {
    "asyncssh",
    "cryptography",
    "grpc",
    "google.cloud.tpu_v2",
    "google.api_core",
    "google.auth",
    "jupyter_server",
    "sqlite3",
}
_OF_LIST = {
    f"jupyter_tpu.cli.{name}"
    for name in (
        "command_line",
        "nodes",
        "nodes.fleet_run",
        "nodes.list",
        "options",
        "overview",
        "spend",
        "spend.ledger_access",
        "terminal",
        "node_texts",
    )
}


@pytest.mark.parametrize(
    "module",
    [
        "jupyter_tpu.kernels.provisioner",
        "jupyter_tpu.kernels.connections.ready_links",
        "jupyter_tpu.ssh",
        "jupyter_tpu.cli.command_line",
    ],
)
def test_importing_it_imports_neither_ssh_nor_googles_client(module: str) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_the_server_extension_imports_nothing_slow_that_a_server_starts_without() -> None:
    script = "import sys, jupyter_tpu.server.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    unneeded = {"psutil", "statistics", "tomllib", "email.policy", "jupyter_tpu.setup.engine", *HEAVY} - {
        "jupyter_server",
        "sqlite3",
    }
    assert unneeded & set(done.stdout.split()) == set()


def test_a_command_imports_neither_other_commands_nor_the_fleet_that_it_does_not_run() -> None:
    script = (
        "import contextlib, sys; from jupyter_tpu.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['list', '--help'])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    help_text, _, modules = done.stdout.rstrip().rpartition("\n")
    assert "--zone" in help_text
    folder = Path(cli.__path__[0])
    # the arguments, which the parser is built from, hold data only
    files = [path for path in folder.rglob("*.py") if path.stem != "__init__" and path.parent.name != "arguments"]
    paths = [path.relative_to(folder).with_suffix("") for path in files]
    others = {".".join(("jupyter_tpu", "cli", *path.parts)) for path in paths} - _OF_LIST
    assert len(others) > 20
    assert {*others, "jupyter_tpu.fleet.reconciler.fleet"} & set(modules.split()) == set()


def test_asyncssh_is_there_once_it_was_imported_ahead() -> None:
    script = (
        "import sys, threading; from jupyter_tpu.ssh import import_ahead; import_ahead(); import_ahead()\n"
        "for thread in threading.enumerate()[1:]: thread.join()\n"
        "import jupyter_tpu.ssh; print('asyncssh' in sys.modules, jupyter_tpu.ssh.connect.__module__)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "jupyter_tpu.ssh.connection"]
