"""``%tpu`` and ``%%tpu_time`` in IPython where no agent is, and what they read on their own machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook.magics.completion import candidates, register_completion
from jupyter_tpu.notebook.magics.context import CELL_TIMEOUT_S, MagicContext
from jupyter_tpu.notebook.magics.env_logs import last_lines, variables_shown
from jupyter_tpu.notebook.magics.money import usd
from jupyter_tpu.notebook.magics.subcommands import run_line
from jupyter_tpu.notebook.magics.timing import Timed, device_text, lines_of, wall_text

ON_A_NODE = {"TPU_ACCELERATOR_TYPE": "v5litepod-8"}
BEGAN = 1_790_000_000.0


def test_a_machine_with_chips_and_no_agent_gets_a_sentence_for_each_line_and_goes_on(run_cells: Any) -> None:
    lines = ("%tpu", "%tpu top", "%tpu release", "%tpu rm -rf", "%tpu stop --yes", "%tpu --help")
    run = run_cells(*lines, "print(6 * 7)", environ=ON_A_NODE)
    assert run.text.count("This kernel was not started by an agent of jupyter_tpu.") == 4
    assert "%tpu has no command 'rm'." in run.text
    assert "Traceback" not in run.text
    assert run.text.endswith("42\n")


def test_what_needs_no_agent_works_in_any_shell(run_cells: Any) -> None:
    timed = "%%tpu_time\nanswer = 6 * 7\nanswer"
    environ = {**ON_A_NODE, "TPU_TOKEN": "hush"}
    run = run_cells("%tpu python", timed, "print(answer, _)", environ=environ)
    assert run.succeeded, run.text
    assert "CPython" in run.text
    assert "device: unknown: This kernel was not started by an agent of jupyter_tpu." in run.text
    assert "42 42" in run.text
    assert "hush" not in run.text


def test_cells_for_worker_0_of_a_slice_run_on_one_worker_too(run_cells: Any) -> None:
    ran = run_cells("%%worker 0\nprint('here')", "%%workers 0-1\nprint('never')", "%tpu workers", environ=ON_A_NODE)
    assert not ran.succeeded
    assert "here" in ran.text
    assert "There is no worker 1." in ran.text
    assert "never\n" not in ran.text
    assert "This kernel runs on one worker." in ran.text


def test_an_agent_that_hangs_costs_a_line_two_seconds_and_no_more(run_cells: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "a"))
        listener.listen()
        run = run_cells("%tpu top", "print(6 * 7)", environ={"JUPYTER_TPU_AGENT_SOCKET": str(tmp_path / "a")})
    assert CELL_TIMEOUT_S == 2.0
    assert "The agent on this machine did not respond within 2 s." in run.text
    assert run.text.endswith("42\n")


@pytest.mark.parametrize(("endpoint", "is_said"), [("", True), ("127.0.0.1:9", False)])
def test_a_local_kernel_leads_to_the_nodes_of_the_emulated_cloud_that_is_tried(
    run_cells: Any, tmp_path: Path, endpoint: str, is_said: bool
) -> None:
    (tmp_path / "emulated-cloud").mkdir()
    (tmp_path / "emulated-cloud" / "cloud.json").write_text('{"endpoint": "127.0.0.1:9"}')
    environ = {"JUPYTER_TPU_DATA_DIR": str(tmp_path), "JUPYTER_TPU_ENDPOINT": endpoint, "JUPYTER_TPU_AGENT_SOCKET": ""}
    run = run_cells("%tpu regions-that-do-not-exist", environ=environ)
    assert ("choose its kernel (Kernel > Change Kernel…)" in run.text) == is_said


@pytest.fixture(scope="module")
def plain_kernel() -> Iterator[Any]:
    """``python -m ipykernel`` on a machine with chips, as anybody starts it."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, **ON_A_NODE})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    assert client.execute("%load_ext jupyter_tpu", reply=True, timeout=60)["content"]["status"] == "ok"
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def reply_to(client: Any, code: str) -> dict[str, Any]:
    """Of a cell; its error does not abort the next one, which may be on its way."""
    reply: dict[str, Any] = client.execute(code, reply=True, timeout=60, stop_on_error=False)["content"]
    return reply


def test_a_kernel_that_somebody_else_has_started_says_that_no_agent_is_here(plain_kernel: Any) -> None:
    reply = reply_to(plain_kernel, "%tpu top")
    assert (reply["status"], reply["ename"]) == ("error", "WorkerUnreachable")
    assert reply_to(plain_kernel, "1")["status"] == "ok"


@pytest.mark.parametrize("source", ["answer = (", "def f():\npass", "return 1", "if 1:\n    2\n  3", "'\x00'"])
def test_a_timed_cell_that_is_no_python_is_shown_as_such_without_our_frames(plain_kernel: Any, source: str) -> None:
    reply = reply_to(plain_kernel, f"%%tpu_time\n{source}")
    shown = "\n".join(reply["traceback"])
    assert (reply["status"], reply["ename"]) == ("error", "CellSyntaxError")
    assert "SyntaxError" in shown or "IndentationError" in shown or "null bytes" in shown
    assert "jupyter_tpu" not in shown
    assert "interactiveshell" not in shown


@pytest.mark.parametrize("source", ["await x", "async with x: pass", "[y async for y in x]"])
def test_a_cell_that_awaits_is_not_timed_and_not_run(plain_kernel: Any, source: str) -> None:
    reply = reply_to(plain_kernel, f"%%tpu_time\n{source}")
    assert reply["ename"] == "BadInput"
    assert "cannot time a cell that uses await" in reply["evalue"]


def test_its_words_are_completed_all_the_same(plain_kernel: Any) -> None:
    assert plain_kernel.complete("%tpu qu", reply=True, timeout=60)["content"]["matches"] == ["quota"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "%tpu extend ",
            {*("1h", "3h", "until", "while-busy", "off"), *("--for", "--until", "--while-busy", "--off"), "--help"},
        ),
        ("%tpu release --yes ", {"--pid", "--force", "--help"}),
        ("%tpu nonsense ", set()),
        ("%tpu python -", {"--help"}),
    ],
)
def test_a_word_offers_what_it_has_not_got_yet(line: str, found: set[str]) -> None:
    assert set(candidates(line)) == found


def test_an_older_ipython_is_given_its_kind_of_completer() -> None:
    hooks: dict[str, Any] = {}
    shell = SimpleNamespace(set_hook=lambda _name, hook, str_key: hooks.update({str_key: hook}))
    register_completion(shell)
    event = SimpleNamespace(text_until_cursor="%tpu ex", symbol="ex")
    assert hooks["%tpu"](shell, event) == ["extend"]
    other = SimpleNamespace(text_until_cursor="%tpu_init ex", symbol="ex")
    assert hooks["%tpu"](shell, other) == []


def test_what_is_registered_last_answers() -> None:
    shell = SimpleNamespace(Completer=SimpleNamespace(custom_matchers=[]))
    register_completion(shell)
    register_completion(shell, lambda line: ["list", line])
    (match,) = shell.Completer.custom_matchers
    found = match(SimpleNamespace(text_until_cursor="%tpu li", token="li"))
    assert [each.text for each in found["completions"]] == ["list"]


def test_a_shell_that_cannot_complete_goes_without() -> None:
    register_completion(SimpleNamespace())


def test_the_end_of_a_log_is_shown_harmless(tmp_path: Path) -> None:
    log = tmp_path / ".jupyter-tpu" / "agent.log"
    log.parent.mkdir()
    log.write_bytes(b"first\n" + b"x" * 400_000 + b"\n\xff\x1b[2J<script>\nlast\n")
    shown = run_line("logs 2", MagicContext({"HOME": str(tmp_path)}))
    assert str(shown).endswith("last")
    assert "first" not in str(shown)
    assert "\x1b" not in str(shown)
    assert "<script" not in shown.to_html()


@pytest.mark.parametrize(("count", "lines"), [(1, ["c"]), (2, ["b", "c"]), (9, ["a", "b", "c"])])
def test_so_many_lines_are_read_from_the_end(tmp_path: Path, count: int, lines: list[str]) -> None:
    (tmp_path / "log").write_text("a\nb\nc\n")
    assert last_lines(tmp_path / "log", count) == lines


def test_a_machine_without_a_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no agent log at"):
        run_line("logs", MagicContext({"HOME": str(tmp_path)}))


def test_variables_of_frameworks_are_shown_and_no_others() -> None:
    environ = {"TPU_NAME": "a", "HOME": "/h", "JAX_PLATFORMS": "tpu"}
    assert dict(variables_shown(environ)) == {"TPU_NAME": "a", "JAX_PLATFORMS": "tpu"}


@pytest.mark.parametrize("name", ["TPU_API_KEY", "TPU_PASS", "TPU_AUTH", "TF_PWD", "JAX_Password", "XLA_TOKENS"])
def test_variables_that_may_be_secret_are_named_and_not_shown(name: str) -> None:
    assert dict(variables_shown({name: "s3cret"})) == {name: "(set, not shown)"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://me:pw123@host/a", "https://(not shown)@host/a"),
        ("git+https://pw123@host", "git+https://(not shown)@host"),
        ("--proxy=http://me:pw/pw@12@host:80 --v=1", "--proxy=http://(not shown)@host:80 --v=1"),
        ("me:pw123@host:3128", "(not shown)@host:3128"),
        ("http://host:80/a", "http://host:80/a"),
        ("--xla_dump_to=/tmp/a --v=1", "--xla_dump_to=/tmp/a --v=1"),
    ],
)
def test_who_signs_in_at_an_address_is_not_shown(value: str, shown: str) -> None:
    assert dict(variables_shown({"JAX_PROXY": value})) == {"JAX_PROXY": shown}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0000042, "4.2 µs"), (0.25, "250 ms"), (1.5, "1.5 s"), (12.34, "12.3 s"), (150.0, "2 min"), (7260, "2 h 1 min")],
)
def test_times_are_told_with_few_digits(seconds: float, text: str) -> None:
    assert wall_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (0.0, "$0.00"), (12.345, "$12.35"), (0.0123, "$0.0123"), (0.00000001, "less than $0.0001")],
)
def test_small_sums_are_not_rounded_to_nothing(value: float | None, text: str) -> None:
    assert usd(value) == text


def timed(wall_s: float) -> Timed:
    return Timed(BEGAN, BEGAN + wall_s, wall_s)


def history(*duty: float | None, step_s: float = 1.0) -> dict[str, Any]:
    """Two chips; the second does half as much as the first."""
    half = [None if value is None else value / 2 for value in duty]
    at = [BEGAN + step_s * (index + 0.5) for index in range(len(duty))]
    return {"at": at, "duty_percent": {"0": list(duty), "1": half}}


@pytest.mark.parametrize(
    ("seen", "wall_s", "text"),
    [
        (history(100, 100, 100, 100), 4.0, "about 3 s, 75 % of the time"),
        (history(0, 0, 0, 0), 4.0, "about 0 µs, 0 % of the time"),
        (history(*[80.0] * 600, step_s=6.0), 3600.0, "about 36 min, 60 % of the time"),
        (history(*[80.0] * 10), 0.5, "unknown: the cell is too short"),
        (history(100, None, None, None), 4.0, "unknown: the chips' duty cycle is known only for 1 s of the cell"),
        (history(100, 100, 100, 100), 40.0, "unknown: the chips' duty cycle is known only for 4 s of the cell"),
        ({}, 4.0, "unknown: the chips' duty cycle is known only for 0 s of the cell"),
    ],
)
def test_device_time_is_told_where_the_duty_cycle_covers_the_cell(seen: Any, wall_s: float, text: str) -> None:
    assert device_text(seen, 1.0, timed(wall_s)).startswith(text)


def test_a_kernel_without_an_agent_tells_the_wall_clock_alone() -> None:
    wall, device, cost = lines_of(timed(3.0), MagicContext({}, BEGAN + 3))
    assert wall == "wall: 3 s"
    assert device.startswith("device: unknown: ")
    assert cost.startswith("cost: unknown: ")
