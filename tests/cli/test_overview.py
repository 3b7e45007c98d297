"""`jupyter tpu --help` shows what there is, and a mistyped command what was meant."""

from __future__ import annotations

import pytest

from jupyter_tpu.cli import main
from jupyter_tpu.cli.command_line import build_parser
from jupyter_tpu.cli.overview import GROUPS


def test_every_command_stands_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(build_parser().commands.choices)


def test_a_command_is_the_same_whether_the_others_are_loaded_or_not() -> None:
    for name, parser in build_parser().commands.choices.items():
        alone = build_parser(name).commands.choices
        assert len(alone) < 4
        assert alone[name].format_help() == parser.format_help()


def test_the_overview_fits_a_terminal_and_says_what_each_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = build_parser().format_help().splitlines()
    assert max(map(len, lines)) <= 80
    for name in build_parser().commands.choices:
        assert any(line.split()[:1] == [name] and len(line.split()) > 2 for line in lines), name


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lst", "Did you mean `jupyter tpu list`?"),
        ("delet", "Did you mean `jupyter tpu delete`?"),
        ("stpo", "Did you mean `jupyter tpu stop`?"),
        ("idle", "`jupyter tpu --help` lists all commands."),
        ("setup", "`jupyter tpu --help` lists all commands."),
        ("describ", "Did you mean `jupyter tpu describe`?"),
        ("xyzzy", "`jupyter tpu --help` lists all commands."),
        ("\x1b[31m", "lists all"),
    ],
)
def test_a_mistyped_command_is_told_what_there_is(capsys: pytest.CaptureFixture[str], typed: str, said: str) -> None:
    assert main([typed]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "\x1b" not in shown
