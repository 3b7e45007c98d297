"""What reaches the user's terminal."""

from __future__ import annotations

import io

import pytest

from jupyter_tpu.cli.terminal import Progress, echo_table, plain, report
from jupyter_tpu.errors import OutOfCapacity


class FakeTerminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\nb\tc", "a b c"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x1b]52;c;ZXZpbA==\x07", "]52;c;ZXZpbA=="),
        ("\x9b2J", "2J"),
        ("a\u202eb\u200bc\u2028d", "abcd"),
        ("\ud800", ""),
        ("naïve 节点", "naïve 节点"),
    ],
)
def test_text_of_the_cloud_cannot_steer_the_terminal(hostile: str, shown: str) -> None:
    assert plain(hostile) == shown


def test_text_of_the_cloud_is_cut() -> None:
    assert len(plain("x" * 1_000_000)) <= 2000


def test_an_error_is_three_short_lines(capsys: pytest.CaptureFixture[str]) -> None:
    error = OutOfCapacity("No v5litepod-8 is free.", exists="Nothing was made.", hint="Try\x1b[2J\nlater.", raw="x")

    report(error, as_json=False)

    lines = capsys.readouterr().err.splitlines()
    assert lines == ["error: No v5litepod-8 is free.", "  now: Nothing was made.", "   do: Try[2J later."]


def test_a_table_is_aligned_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    echo_table(("NAME", "STATE"), [("a", "READY"), ("long-name", "\x1b[1mEVIL")])

    assert capsys.readouterr().out.splitlines() == ["NAME       STATE", "a          READY", "long-name  [1mEVIL"]


def test_progress_is_a_line_for_each_change_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(stream)

    for text in ("asking", "asking", "provisioning"):
        progress.show(text)
    progress.end()

    assert stream.getvalue() == "asking\nprovisioning\n"


def test_progress_rewrites_one_line_on_a_terminal() -> None:
    stream = FakeTerminal()
    progress = Progress(stream)

    progress.show("asking")
    progress.show("ready")
    progress.end()

    assert stream.getvalue() == "\r\x1b[Kasking\r\x1b[Kready\n"
