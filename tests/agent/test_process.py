"""Processes that outlive their parent, and the folder that remembers them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_tpu.agent.clock import this_moment
from jupyter_tpu.agent.kernels.kernel_dir import KernelDirectory
from jupyter_tpu.agent.kernels.launch_request import Launch
from jupyter_tpu.agent.kernels.process import Exit, Process, ReportedExits, start_ticks
from jupyter_tpu.agent.paths import Home, private_folder
from jupyter_tpu.errors import AgentBroken, BadInput

Start = Callable[[str], Process]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts Python programs that are killed after the test."""
    started: list[Process] = []

    def start_one(code: str) -> Process:
        argv, output = [sys.executable, "-c", code], tmp_path / "output.log"
        process = Process.start(argv, env=os.environ, cwd=tmp_path, output=output, reports=ReportedExits())
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        process.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", Exit(exit_code=0)),
        ("import sys; sys.exit(3)", Exit(exit_code=3)),
        ("import os; os.abort()", Exit(signal="SIGABRT")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)", Exit(signal="signal 35")),
    ],
)
async def test_the_end_of_a_process_is_told_as_it_was(start: Start, code: str, expected: Exit) -> None:
    assert await start(code).wait() == expected


async def test_a_process_has_a_session_of_its_own(start: Start) -> None:
    process = start("input()")
    assert os.getsid(process.pid) == process.pid
    await process.wait()


async def test_a_signal_reaches_the_children_as_well(start: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "child")
    process = start(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"print(child.pid, file=open({str(tmp_path / 'child')!r}, 'w'))\n"
        "child.wait()"
    )
    child = os.pidfd_open(int(await asyncio.to_thread((tmp_path / "child").read_text)))
    process.send_signal(signal.SIGKILL)
    assert await process.wait() == Exit(signal="SIGKILL")
    process.send_signal(signal.SIGKILL)
    has_ended = bool(select.select([child], [], [], 60)[0])
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os.close(child)
    assert has_ended, "the child lives on"


async def test_a_process_is_found_by_pid_and_start_time_only(start: Start) -> None:
    process = start("import time; time.sleep(60)")
    found = Process.find(process.pid, process.started, ReportedExits())
    assert found is not None
    found.close()
    assert Process.find(process.pid, process.started + 1, ReportedExits()) is None
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert Process.find(process.pid, process.started, ReportedExits()) is None
    assert start_ticks(process.pid) is None


async def test_how_a_process_of_another_parent_ended_comes_from_the_reports() -> None:
    reports = ReportedExits()
    for pid in range(3000):
        reports.report(pid, 4 << 8)
    assert await reports.of(2999) == Exit(exit_code=4)


def test_a_folder_of_ours_is_made_private(tmp_path: Path) -> None:
    assert private_folder(tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_the_parents_of_a_folder_of_ours_are_made_private_too(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        private_folder(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}


def test_a_link_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(AgentBroken, match="Other users have access"):
        private_folder(tmp_path / "link")


def test_sockets_of_a_deep_home_get_a_short_path(tmp_path: Path) -> None:
    home = Home(tmp_path / ("x" * 100))
    assert len(str(home.run)) <= 70
    assert home.run != Home(tmp_path / ("y" * 100)).run


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_the_state_of_a_kernel_is_found_again(home: Home) -> None:
    folder = KernelDirectory(home, "kernel-1")
    folder.save(pid=7)
    clients = ("a" * 32, "b" * 32)
    assert all(folder.is_new_request(client, 1) for client in clients)
    folder.close()
    again = KernelDirectory(home, "kernel-1")
    assert again.state == {"pid": 7}
    assert not any(again.is_new_request(client, 1) for client in clients)
    assert all(again.is_new_request(client, 2) for client in clients)
    again.close()


def test_a_damaged_state_counts_as_none(home: Home) -> None:
    KernelDirectory(home, "kernel-1").close()
    (home.kernels / "kernel-1/kernel.json").write_text('{"pid": ')
    folder = KernelDirectory(home, "kernel-1")
    assert folder.state == {}
    folder.close()


def test_only_kernels_that_ended_long_ago_are_stale(home: Home) -> None:
    folder = KernelDirectory(home, "kernel-1")
    assert not folder.is_stale
    folder.count_age()
    ended_days_ago(folder, 6)
    assert not folder.is_stale
    ended_days_ago(folder, 8)
    assert folder.is_stale
    folder.state["pid"] = 7
    assert not folder.is_stale
    folder.close()


def test_a_reboot_counts_as_at_most_a_day_of_the_time_that_a_record_is_kept(home: Home) -> None:
    folder = KernelDirectory(home, "kernel-1")
    folder.count_age()
    for _ in range(7):
        ended_days_ago(folder, 8, boot="an earlier one")
        assert not folder.is_stale
        folder.count_age()
    ended_days_ago(folder, 8, boot="an earlier one")
    assert folder.is_stale
    folder.close()


def ended_days_ago(folder: KernelDirectory, days: float, **changes: str) -> None:
    """As if the age was last stored so long ago."""
    ended = folder.state["ended"]
    moment = replace(this_moment().back(days * 86400), **changes)  # type: ignore[arg-type]
    folder.save(ended={**ended, "counted_at": moment.to_json()})


def test_the_key_is_in_a_file_that_only_we_can_read(home: Home) -> None:
    folder = KernelDirectory(home, "kernel-1")
    path = folder.prepare_launch(Launch(key="secret"))
    assert "secret" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    folder.close()


def test_last_words_are_the_end_of_what_was_written(home: Home) -> None:
    folder = KernelDirectory(home, "kernel-1")
    assert folder.output_tail() == ""
    folder.output.write_bytes(b"\xff\n" + b"".join(b"line %d\n" % i for i in range(5000)))
    assert folder.output_tail().splitlines()[-1] == "line 4999"
    assert len(folder.output_tail().splitlines()) == 30
    folder.close()


def test_what_every_kernel_writes_is_not_its_last_words(home: Home) -> None:
    folder = KernelDirectory(home, "kernel-1")
    noise = "[IPKernelApp] WARNING | Message signing is disabled. This is insecure and not recommended!\n"
    folder.output.write_text(noise)
    assert folder.output_tail() == ""
    folder.output.write_text(f"my last words\n{noise}" + 40 * "[KernelNanny.1] WARNING | SIGTERM\n")
    assert folder.output_tail() == "my last words"
    folder.close()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"key": 7},
        {"key": "k\0"},
        {"key": "k", "env": []},
        {"key": "k", "env": {"A": 1}},
        {"key": "k", "env": {"A=B": "c"}},
        {"key": "k", "env": {"": "c"}},
        {"key": "k", "extra_arguments": "--debug"},
        {"key": "k", "extra_arguments": [1]},
        {"key": "k", "cwd": None},
    ],
)
def test_a_launch_that_makes_no_sense_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Launch.from_params(params)


def supervise(*command: str) -> None:
    """Run agents until their supervisor gives up; one that has lived for a second counts as started."""
    code = (
        "import signal, sys; from jupyter_tpu.agent import supervisor; supervisor._STEADY_S = 1.0; "
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM}); "
        "supervisor.Supervisor(sys.argv[1:], 0).run()"
    )
    subprocess.run([sys.executable, "-c", code, *command], check=True, timeout=240)


def test_the_supervisor_gives_up_an_agent_that_never_stays() -> None:
    supervise("false")


def test_an_agent_that_has_lived_for_a_while_may_crash_again(tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    supervise("sh", "-c", f"echo >> '{lives}'; [ $(wc -l < '{lives}') -ne 4 ] || sleep 2; exit 1")
    assert len(lives.read_text()) >= 9  # the fourth stayed, and five that did not came after it
