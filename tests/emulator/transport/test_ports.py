"""Where an emulator listens, and that no two of them share a port or a state folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tiers import mostly_nightly

from jupyter_tpu.emulator.process import main

Refused = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def refused(state_dir: Path) -> Refused:
    """Runs an emulator that must not come up; returns what it said."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "jupyter_tpu.emulator", "--state-dir", str(state_dir), *options]
        root = str(Path(__file__).parents[3])
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": root}, check=False
        )
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        return done

    return run


@pytest.fixture
def copied(emulator: Any, state_dir: Path) -> Iterator[Any]:
    """A stopped emulator whose state folder was moved elsewhere, so that nothing but the folder knows its ports."""
    emulator.stop()
    shutil.copytree(emulator.state_dir, state_dir)
    other = type(emulator)(state_dir)
    yield other
    other.stop()


def ports_of(emulator: Any) -> tuple[str, str]:
    return emulator.grpc, emulator.rest


def taken(endpoint: str) -> socket.socket:
    return socket.create_server(("127.0.0.1", int(endpoint.rpartition(":")[2])))


def test_an_endpoint_outlives_a_restart(emulator: Any, copied: Any) -> None:
    copied.start()

    assert ports_of(copied) == ports_of(emulator)


def test_a_taken_port_of_the_last_run_is_replaced_and_the_other_kept(emulator: Any, copied: Any) -> None:
    with taken(emulator.grpc):
        copied.start()

    assert copied.grpc != emulator.grpc
    assert copied.rest == emulator.rest


def test_a_port_that_is_asked_for_goes_before_that_of_the_last_run(emulator: Any, copied: Any) -> None:
    asked = emulator.grpc.rpartition(":")[2]
    copied.options = ("--rest-port", asked)
    copied.start()

    assert copied.rest == f"http://127.0.0.1:{asked}"
    assert copied.grpc != emulator.grpc


@pytest.mark.parametrize("option", mostly_nightly(["--port", "--rest-port"], count=1))
@pytest.mark.parametrize("endpoint", mostly_nightly(["grpc", "rest"], count=1))
def test_a_taken_port_is_refused(emulator: Any, refused: Refused, option: str, endpoint: str) -> None:
    port = getattr(emulator, endpoint).rpartition(":")[2]

    done = refused(option, port)

    assert done.returncode == 1
    assert f"port {port}: address already in use" in done.stderr


def test_one_port_for_both_is_refused(refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    done = refused("--port", port, "--rest-port", port)

    assert done.returncode == 1
    assert "address already in use" in done.stderr


@pytest.mark.parametrize("option", ["--port", "--rest-port"])
@pytest.mark.parametrize("number", ["-1", "99999", "many"])
def test_what_is_no_port_is_refused(capsys: pytest.CaptureFixture[str], option: str, number: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([f"{option}={number}"])

    assert f"argument {option}" in capsys.readouterr().err


def test_a_second_emulator_on_a_state_folder_is_refused(emulator: Any, refused: Refused) -> None:
    done = refused("--state-dir", str(emulator.state_dir))

    assert done.returncode == 1
    assert f"another emulator (process {emulator.pid}) runs on {emulator.state_dir}" in done.stderr
    assert psutil.pid_exists(emulator.pid)


def test_a_killed_emulator_holds_no_state_folder(emulator: Any) -> None:
    emulator.kill()

    emulator.start()

    assert emulator.control.info()["pid"] == emulator.pid
