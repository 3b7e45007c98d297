"""`jupyter tpu emulator record` and `replay-check`, with the emulator itself instead of Google's service."""

from __future__ import annotations

import json
import select
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from warm_python import WarmPopen, run_warm

from jupyter_tpu.emulator.cli.commands import main
from jupyter_tpu.emulator.recording.cases import read_cases
from jupyter_tpu.emulator.recording.scrubbing import Scrubber
from jupyter_tpu.emulator.recording.wildcards import differences, filled_in

TOKEN = "ya29.a0AfB_byC-an-access-token"
NODES = "/v2/projects/demo-project/locations/us-central1-a/nodes"
NODE = {
    "acceleratorType": "v5litepod-8",
    "runtimeVersion": "v2-alpha-tpuv5-lite",
    "labels": {"team": "a"},
    "metadata": {"startup-script": "export HF_TOKEN=hf_abcdefghijklmnop", "enable-oslogin": "TRUE"},
}
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIHVPbHJkZXIgdGhhbiBhbnkgb2YgdXMgYWxsIHRvZ2V0"


def emulator_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_tpu.emulator", *arguments]
    return run_warm(command, timeout=120)


def ask(url: str, verb: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data, method=verb, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


class Recorder:
    """A recorder in a process of its own."""

    def __init__(self, upstream: str, folder: Path) -> None:
        command = [sys.executable, "-m", "jupyter_tpu.emulator", "record", "--json", "--out", str(folder)]
        self._process = WarmPopen(
            [*command, "--upstream", upstream], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], 60)
        ready = json.loads(self._process.stdout.readline() if readable else "null")
        self.url = ready["services"][upstream]

    def ask(self, verb: str, path: str, body: object = None) -> tuple[int, Any]:
        return ask(self.url, verb, path, body, Authorization=f"Bearer {TOKEN}", **{"Content-Type": "application/json"})

    def close(self) -> tuple[int, str]:
        """Its exit status and what it said."""
        self._process.send_signal(signal.SIGTERM)
        _, said = self._process.communicate(timeout=120)
        return self._process.returncode, said


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[[str], Recorder]]:
    opened: list[Recorder] = []

    def start(upstream: str) -> Recorder:
        opened.append(Recorder(upstream, tmp_path / "cases"))
        return opened[-1]

    yield start
    for recorder in opened:
        if recorder._process.returncode is None:
            recorder.close()


def session(recorder: Recorder) -> None:
    """What somebody might ask in a second or two."""
    _, operation = recorder.ask("POST", f"{NODES}?nodeId=n1", NODE)
    recorder.ask("GET", f"/v2/{operation['name']}")
    recorder.ask("GET", f"{NODES}/n1")
    recorder.ask("GET", f"{NODES}?pageSize=1")
    recorder.ask("GET", f"{NODES}/missing")
    recorder.ask("POST", f"{NODES}?nodeId=n2", {**NODE, "acceleratorType": "v6e-8"})
    recorder.ask("DELETE", f"{NODES}/n1")


def test_a_recorded_session_is_answered_the_same_by_the_emulator(
    emulator: Any, record: Callable[[str], Recorder], tmp_path: Path
) -> None:
    emulator.control.set_time_scale(1)
    recorder = record(emulator.rest)
    session(recorder)
    recorder.close()

    played = emulator_tool("replay-check", str(tmp_path / "cases"))

    assert (played.returncode, played.stdout, played.stderr) == (0, "7 of 7 cases are answered as recorded.\n", "")


def test_a_recording_holds_nothing_private(emulator: Any, record: Callable[[str], Recorder], tmp_path: Path) -> None:
    recorder = record(emulator.rest)
    session(recorder)
    recorder.close()

    files = sorted((tmp_path / "cases").iterdir())
    text = "".join(file.read_text() for file in files)
    assert [file.name for file in files][:3] == [
        "0001-post-nodes.json",
        "0002-get-operations.json",
        "0003-get-nodes.json",
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    for private in (TOKEN, "demo-project", "123456789012", "hf_abc", "Authorization", "127.0.0.1:"):
        assert private not in text
    assert '"enable-oslogin": "TRUE"' in text
    assert "<project-2>" not in text


def test_cases_are_played_at_their_pace_in_virtual_time(
    emulator: Any, record: Callable[[str], Recorder], tmp_path: Path
) -> None:
    emulator.control.pause()
    recorder = record(emulator.rest)
    _, operation = recorder.ask("POST", f"{NODES}?nodeId=n1", NODE)
    emulator.control.advance(100)
    recorder.ask("GET", f"/v2/{operation['name']}")
    recorder.close()
    emulator.control.reset()
    second = tmp_path / "cases/0002-get-operations.json"
    second.write_text(json.dumps({**json.loads(second.read_text()), "after_s": 2.0}))

    played = emulator_tool("replay-check", str(tmp_path / "cases"), "--emulator", emulator.rest, "--pace", "50")

    assert (played.stdout, played.returncode) == ("2 of 2 cases are answered as recorded.\n", 0)
    assert emulator.control.clock()["paused"] is False


def test_a_difference_is_told_with_its_place(emulator: Any, record: Callable[[str], Recorder], tmp_path: Path) -> None:
    recorder = record(emulator.rest)
    recorder.ask("GET", f"{NODES}/missing")
    recorder.close()
    (file,) = (tmp_path / "cases").iterdir()
    file.write_text(file.read_text().replace("was not found", "is nowhere").replace('"status": 404', '"status": 410'))

    played = emulator_tool("replay-check", str(tmp_path / "cases"), "--emulator", emulator.rest, "--json")

    (lines,) = json.loads(played.stdout)["cases"].values()
    assert played.returncode == 1
    assert lines[0] == "status: expected 410, got 404"
    assert lines[1].startswith("answer.error.message: expected ")


def test_a_later_recording_adds_to_the_folder(emulator: Any, record: Callable[[str], Recorder], tmp_path: Path) -> None:
    for _ in range(2):
        recorder = record(emulator.rest)
        recorder.ask("GET", NODES)
        assert recorder.close()[0] == 0

    assert [case.name for case in read_cases(tmp_path / "cases")] == ["0001-get-nodes", "0002-get-nodes"]


def test_an_upstream_that_is_gone_is_a_503_and_no_case(record: Callable[[str], Recorder], tmp_path: Path) -> None:
    recorder = record("http://127.0.0.1:9")

    status, answer = recorder.ask("GET", NODES)

    assert (status, answer["error"]["status"]) == (503, "UNAVAILABLE")
    assert list((tmp_path / "cases").iterdir()) == []


def test_a_page_in_a_browser_cannot_use_a_recorder(emulator: Any, record: Callable[[str], Recorder]) -> None:
    recorder = record(emulator.rest)

    assert ask(recorder.url, "GET", NODES, Origin="https://example.com")[0] == 403


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "listens on 127.0.0.1 only"),
        (["--upstream", "http://tpu.googleapis.com"], "is not encrypted"),
        (["--upstream", "ftp://127.0.0.1"], "is not an address"),
        (["--upstream", "https://me:secret@tpu.googleapis.com"], "is not an address"),
        (["--upstream", "https://tpu.googleapis.com/v2"], "give the host only"),
        (["--port", "70000"], "--port 70000 is not a port"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path: Path, capsys: Any, arguments: list[str], words: str) -> None:
    status = main(["record", "--out", str(tmp_path / "cases"), *arguments])

    assert status == 2
    assert words in capsys.readouterr().err


def test_a_folder_without_cases_is_not_one_that_passed(tmp_path: Path, capsys: Any) -> None:
    status = main(["replay-check", str(tmp_path), "--emulator", "http://127.0.0.1:9"])

    assert status == 1
    assert f"no cases in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"name": "n", "request": "x", "status": 200}', "\x00", "[" * 9999]
)
def test_a_file_that_is_no_case_is_named(tmp_path: Path, capsys: Any, content: str) -> None:
    (tmp_path / "0001-bad.json").write_text(content)

    status = main(["replay-check", str(tmp_path), "--emulator", "http://127.0.0.1:9"])

    assert status == 1
    assert "0001-bad.json is not a recorded case" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("projects/my-lab/locations/z", "projects/<project-1>/locations/z"),
        ("disk my-lab-disk of projects/my-lab", "disk <project-1>-disk of projects/<project-1>"),
        ("projects/example.com:my-lab/x", "projects/<project-1>/x"),
        ("subject project:1032299714650", "subject project:<project-number-1>"),
        ("in project 1032299714650 before", "in project <project-number-1> before"),
        ("1032299714650-compute@developer.gserviceaccount.com", "<email-1>"),
        ("me@my-lab.iam.gserviceaccount.com in my-lab", "<email-1> in <project-1>"),
        ("failed [EID: 0x1a2b3c4d5e6f7a8b]", "failed [EID: <eid>]"),
        ("at 2026-11-20T10:11:12.123456789Z", "at <time-1>"),
        ("10.1.2.3:8470 and 10.1.2.3", "<ip-1>:8470 and <ip-1>"),
        ("fe80::1, 2001:db8:0:0:0:0:0:2", "<ip-1>, <ip-2>"),
        ("at 12:34:56, version 2.13.0", "at 12:34:56, version 2.13.0"),
        (f"ssh-ed25519 {KEY} me", "ssh-ed25519 <key-1> me"),
        (f"Bearer {TOKEN}", "Bearer <secret-1>"),
        ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", "<secret-1>"),
        ({"metadata": {"ssh-keys": "me:ssh-rsa AAAA", "n": "4"}}, {"metadata": {"ssh-keys": "<metadata-1>", "n": "4"}}),
        ({"items": [{"key": "ssh-keys", "value": "me:k"}]}, {"items": [{"key": "ssh-keys", "value": "<metadata-1>"}]}),
        ({"nextPageToken": "bXktbGFi"}, {"nextPageToken": "<token-1>"}),
        ({"id": "7293847293847", "queueCount": 2}, {"id": "<uid-1>", "queueCount": 2}),
        ({"private_key": "x", "apiKey": "y"}, {"private_key": "<secret-1>", "apiKey": "<secret-2>"}),
    ],
)
def test_what_is_private_becomes_a_placeholder(given: Any, shown: Any) -> None:
    scrubber = Scrubber()
    scrubber.learn(json.dumps(given))

    assert scrubber.scrubbed(given) == shown


def test_the_same_is_replaced_by_the_same_and_what_was_replaced_stays() -> None:
    scrubber = Scrubber()
    scrubber.learn("projects/number and projects/other")
    once = scrubber.scrubbed(["number other number", "projects/other"])

    assert once == ["<project-1> <project-2> <project-1>", "projects/<project-2>"]
    assert scrubber.scrubbed(once) == once


@pytest.mark.parametrize(
    ("expected", "got", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, ["answer.a: expected 1, got True"]),
        ({"a": "1"}, {"a": 1}, ["answer.a: expected '1', got 1"]),
        ({"a": 1}, {}, ["answer.a: expected 1, got nothing"]),
        ({}, {"a": 1}, ["answer.a: expected nothing, got 1"]),
        ({"...": ""}, {"a": 1}, []),
        ([1, 2], [1], ["answer: expected 2 items, got 1"]),
        ("x [EID: <eid>]", "x [EID: 0x0123456789abcdef]", []),
        ("x [EID: <eid>]", "x [EID: 0x0123]", ["answer: expected 'x [EID: <eid>]', got 'x [EID: 0x0123]'"]),
        ("<time>", "2026-11-20T10:11:12Z", []),
        ("a.c", "abc", ["answer: expected 'a.c', got 'abc'"]),
        (["<uid-1>", "<uid-1>"], ["1", "1"], []),
        (["<uid-1>", "<uid-1>"], ["1", "2"], ["answer[1]: expected '1', got '2'"]),
        ("<uid-1>/<uid-1>", "1/2", ["answer: expected '<uid-1>/<uid-1>', got '1/2'"]),
    ],
)
def test_only_placeholders_may_differ(expected: Any, got: Any, lines: list[str]) -> None:
    assert list(differences(expected, got, {})) == lines


def test_what_a_placeholder_stood_for_is_sent_again() -> None:
    bound: dict[str, str] = {}
    assert list(differences({"name": "operations/<token-1>"}, {"name": "operations/abc"}, bound)) == []

    assert filled_in({"path": ["/<token-1>", "<token-2>", 3]}, bound) == {"path": ["/abc", "<token-2>", 3]}
