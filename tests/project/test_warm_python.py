"""The tests' warm Python runs a command as a fresh interpreter does."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from warm_python import WarmPopen, run_warm

PROGRAM = """
import atexit, json, os, signal, sys, threading, time

def last_words():
    print("the end", file=sys.stderr)

atexit.register(last_words)
if sys.argv[1:] == ["raise"]:
    raise ValueError("as it is")
if sys.argv[1:] == ["words"]:
    sys.exit("in words")
if sys.argv[1:] == ["log"]:
    signal.signal(signal.SIGTERM, lambda *_: print("asked to stop", file=sys.stderr))
    print("a line" * 100_000, file=sys.stderr)
    sys.exit()
if sys.argv[1:] == ["wait"]:
    print("ready", flush=True)
    time.sleep(60)
threading.Thread(target=lambda: (time.sleep(0.1), print("from a thread"))).start()
said = sys.stdin.read()
print(json.dumps([__name__, sys.argv[1:], said, os.getcwd(), os.environ.get("MARK"), os.getpid() == os.getsid(0)]))
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else None)
"""


@pytest.fixture
def program(tmp_path: Path) -> dict[str, Any]:
    """The options of a command whose module is `PROGRAM`."""
    (tmp_path / "a_program.py").write_text(PROGRAM)
    return {"env": {**os.environ, "PYTHONPATH": str(tmp_path), "MARK": "its own"}, "cwd": tmp_path}


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "a_program", *argv]


@pytest.mark.parametrize("argv", [(), ("0",), ("3",), ("words",), ("raise",)])
def test_streams_and_exit_code_are_those_of_a_fresh_interpreter(program: dict[str, Any], argv: tuple[str, ...]) -> None:
    fresh = subprocess.run(
        command(*argv), input="what it reads", capture_output=True, text=True, timeout=120, check=False, **program
    )
    warm = run_warm(command(*argv), input="what it reads", timeout=120, **program)

    assert (warm.returncode, warm.stdout) == (fresh.returncode, fresh.stdout)
    assert warm.stderr.splitlines()[-2:] == fresh.stderr.splitlines()[-2:]


def test_it_is_a_process_of_its_own(program: dict[str, Any]) -> None:
    with WarmPopen(
        command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, **program
    ) as process:
        assert process.pid != os.getpid()
        printed, _ = process.communicate(timeout=120)
        name, argv, said, folder, mark, leads_a_session = json.loads(printed.splitlines()[0])
    assert (name, argv, said, mark, leads_a_session) == ("__main__", [], "", "its own", True)
    assert Path(folder) == program["cwd"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it(program: dict[str, Any], number: signal.Signals) -> None:
    with WarmPopen(command("wait"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        process.send_signal(number)
        assert process.wait(timeout=120) == -number


def test_a_signal_handler_may_log_in_the_middle_of_a_log_line(program: dict[str, Any]) -> None:
    with WarmPopen(command("log"), stderr=subprocess.PIPE, **program) as process:
        assert process.stderr is not None
        log = process.stderr.fileno()
        while _unread(log) < fcntl.fcntl(log, fcntl.F_GETPIPE_SZ):  # it waits for us, in the middle of its line
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, logged = process.communicate(timeout=120)
    assert (process.returncode, logged.count(b"asked to stop")) == (0, 1)


def _unread(fd: int) -> int:
    """The number of bytes that wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
