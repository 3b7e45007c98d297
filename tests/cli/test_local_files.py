"""What the user's own disk does not allow is said in words, and never hides what a node costs."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tiers import mostly_nightly

if TYPE_CHECKING:
    from terminal import Terminal

HERE = ("--zone", "us-central1-a")
V5E = ("--type", "v5litepod-8", *HERE)


def in_shell(terminal: Terminal, script: str, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as `exec "$@"` in a script of the shell."""
    return subprocess.run(
        ["sh", "-c", script, "sh", *terminal.command(*argv)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**terminal.environment, **variables},
        cwd=terminal.home,
        timeout=240,
    )


def assert_in_words(failed: subprocess.CompletedProcess[str]) -> None:
    assert failed.returncode == 1, failed
    assert "Traceback" not in failed.stderr
    assert "error: " in failed.stderr
    assert "   do: " in failed.stderr


@pytest.fixture
def blocked(terminal: Terminal) -> Iterator[str]:
    """A folder that cannot be made: even root cannot make one below a file."""
    file = terminal.home / "file"
    file.write_text("in the way")
    yield str(file / "folder")
    file.unlink()


def test_a_node_is_ready_and_its_cost_is_said_without_its_kernelspec(terminal: Terminal, blocked: str) -> None:
    created = terminal.tpu("create", "bare", *V5E, JUPYTER_DATA_DIR=blocked)
    try:
        assert created.returncode == 0, created.stderr
        assert "bare is READY and costs" in created.stdout
        assert "warning: " in created.stderr
        assert "jupyter tpu kernelspec" in created.stderr
        assert_in_words(terminal.tpu("kernelspec", JUPYTER_DATA_DIR=blocked))
        assert_in_words(terminal.tpu("ssh-config", "--write", HOME=blocked))
    finally:
        deleted = terminal.tpu("delete", "bare", *HERE, "--yes", JUPYTER_DATA_DIR=blocked)
    assert (deleted.returncode, deleted.stdout) == (0, "bare is deleted.\n"), deleted.stderr


def test_a_full_disk_is_said_before_anything_is_asked_for(terminal: Terminal) -> None:
    folder = terminal.home / "full"
    full = in_shell(terminal, 'ulimit -f 0; exec "$@"', "create", "x", *V5E, JUPYTER_TPU_DATA_DIR=str(folder))

    assert_in_words(full)
    assert [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size] == []
    assert terminal.cloud.billing() == []


def test_a_list_on_a_full_disk_has_costs_and_says_that_they_are_not_saved(terminal: Terminal) -> None:
    assert terminal.tpu("create", "dear", *V5E).returncode == 0
    terminal.cloud.advance(3600)
    # a server has the journal open, so a command can open it too
    with closing(sqlite3.connect(terminal.home / "tpu" / "journal.db")) as server:
        server.execute("SELECT count(*) FROM intents").fetchall()
        listed = in_shell(terminal, 'ulimit -f 0; exec "$@"', "list")
    terminal.tpu("delete", "dear", *HERE, "--yes")

    assert listed.returncode == 0, listed.stderr
    (row,) = (line for line in listed.stdout.splitlines() if line.startswith("dear"))
    assert row.count("$") == 2, listed.stdout + listed.stderr
    (warning,) = (line for line in listed.stderr.splitlines() if line.startswith("warning: "))
    assert "The cost of the nodes is not saved: The journal " in warning
    assert "cannot be written" in warning


def test_a_stop_on_a_full_disk_says_what_it_could_not_record(terminal: Terminal) -> None:
    assert terminal.tpu("create", "full", *V5E).returncode == 0
    stopped = in_shell(terminal, 'ulimit -f 0; exec "$@"', "stop", "full", *HERE, "--yes")
    terminal.tpu("delete", "full", *HERE, "--yes")

    assert (stopped.returncode, stopped.stdout) == (0, "full is stopped: its disk is kept.\n"), stopped.stderr
    assert "will not show this request" in stopped.stderr
    assert "Stop " not in terminal.tpu("audit").stdout


@pytest.mark.nightly
def test_a_stop_is_recorded_if_the_disk_has_room_once_it_is_done(terminal: Terminal) -> None:
    assert terminal.tpu("create", "full", *V5E).returncode == 0
    command = subprocess.Popen(
        ["sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh", *terminal.command("stop", "full", *HERE, "--yes")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=terminal.environment,
        cwd=terminal.home,
    )
    assert command.stderr is not None
    said = next(line for line in command.stderr if "The request is sent anyway." in line)
    resource.prlimit(command.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    _, later = command.communicate(timeout=240)
    audit = terminal.tpu("audit").stdout
    terminal.tpu("delete", "full", *HERE, "--yes")

    assert (command.returncode, later) == (0, ""), said + later
    assert "Stop " in audit


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_answer_that_cannot_be_written_is_a_failure(terminal: Terminal, options: tuple[str, ...]) -> None:
    # a list without nodes says nothing on the standard output, a version always does
    failed = in_shell(terminal, 'exec "$@" >/dev/full', "version", *options)
    assert_in_words(failed)
    assert "Exception ignored" not in failed.stderr


def test_a_demo_that_cannot_make_its_folder_says_so(terminal: Terminal, blocked: str) -> None:
    assert_in_words(terminal.tpu("demo", "--no-browser", "--dir", blocked))


def test_a_damaged_journal_is_told_of_and_nothing_is_created(terminal: Terminal) -> None:
    folder = terminal.home / "damaged"
    folder.mkdir()
    (folder / "journal.db").write_bytes(b"this is no database, " * 400)

    created = terminal.tpu("create", "y", *V5E, "--json", JUPYTER_TPU_DATA_DIR=str(folder))

    assert "warning: The journal was damaged." in created.stderr
    assert json.loads(created.stdout)["error"]["code"] == "journal_unwritable"


def test_a_damaged_journal_is_told_of_when_a_node_is_looked_for_in_it(terminal: Terminal) -> None:
    folder = terminal.home / "damaged-too"
    folder.mkdir()
    (folder / "journal.db").write_bytes(b"this is no database, " * 400)

    assert (
        "warning: The journal was damaged."
        in terminal.tpu("delete", "nobody", "--yes", JUPYTER_TPU_DATA_DIR=str(folder)).stderr
    )


@pytest.mark.nightly
def test_what_ends_a_charge_needs_no_folder_of_ours(terminal: Terminal, blocked: str) -> None:
    for name in ("one", "two", "three"):
        assert terminal.tpu("create", name, *V5E).returncode == 0
    elsewhere = {"JUPYTER_TPU_DATA_DIR": blocked}
    assert "one" in terminal.tpu("list", **elsewhere).stdout
    assert_in_words(terminal.tpu("create", "four", *V5E, **elsewhere))

    stopped = terminal.tpu("stop", "one", *HERE, "--yes", **elsewhere)
    assert (stopped.returncode, stopped.stdout) == (0, "one is stopped: its disk is kept.\n"), stopped.stderr
    deleted = terminal.tpu("delete", "two", *HERE, "--yes", **elsewhere)
    assert (deleted.returncode, deleted.stdout) == (0, "two is deleted.\n"), deleted.stderr
    assert "The request is sent anyway." in deleted.stderr
    panicked = terminal.tpu("stop", "--all", "--yes", **elsewhere)
    assert "stopped   three (us-central1-a)" in panicked.stdout

    assert terminal.cloud.billing() == []
    terminal.tpu("cleanup", "--delete", "one", "three", "--yes")


def test_a_file_that_is_not_there_is_no_matter_of_space(terminal: Terminal) -> None:
    failed = terminal.tpu("grant", "add", "trc", "--from", "no-such-mail", "--starts-on", "2026-11-01", "--days", "90")
    assert_in_words(failed)
    assert "No such file or directory" in failed.stderr
    assert "disk" not in failed.stderr


CLOSED = ["2>&-", "<&-", ">&-", "<&- >&- 2>&-"]
"""What a shell writes for standard streams that a command is to go without."""


@pytest.mark.nightly
@pytest.mark.parametrize("closed", mostly_nightly(CLOSED, count=1))
def test_what_starts_and_ends_a_charge_needs_no_standard_stream(terminal: Terminal, closed: str) -> None:
    without = f'exec "$@" {closed}'
    created = in_shell(terminal, without, "create", "alone", *V5E, "--yes")
    assert (created.returncode, len(terminal.cloud.billing())) == (0, 1), created.stderr

    assert in_shell(terminal, without, "stop", "alone", *HERE, "--yes").returncode == 0
    assert terminal.cloud.billing() == []
    deleted = in_shell(terminal, without, "delete", "alone", *HERE, "--yes")
    assert (deleted.returncode, terminal.cloud.state()["node_count"]) == (0, 0), deleted.stderr


def test_a_delete_without_a_standard_input_is_not_confirmed(terminal: Terminal) -> None:
    assert terminal.tpu("create", "mine", *V5E).returncode == 0

    asked = in_shell(terminal, 'exec "$@" <&-', "delete", "mine", *HERE)

    assert_in_words(asked)
    assert "Deleting mine was not confirmed." in asked.stderr
    assert terminal.tpu("delete", "mine", *HERE, "--yes").returncode == 0
