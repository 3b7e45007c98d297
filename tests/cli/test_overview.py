"""`jupyter tpu --help` shows what there is, and a mistyped command what was meant."""

from __future__ import annotations

import pytest

from jupyter_tpu.cli import main
from jupyter_tpu.cli.arguments import GROUPS
from jupyter_tpu.cli.overview import Overview


def test_every_command_stands_in_one_group() -> None:
    grouped = [each.name for commands in GROUPS.values() for each in commands]
    assert sorted(grouped) == sorted(set(grouped)) == sorted(Overview().commands.choices)


def test_the_overview_fits_a_terminal_and_says_what_each_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = Overview().format_help().splitlines()
    assert max(map(len, lines)) <= 80
    for name in Overview().commands.choices:
        assert any(line.split()[:1] == [name] and len(line.split()) > 2 for line in lines), name


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lst", "Did you mean `jupyter tpu list`?"),
        ("delet", "Did you mean `jupyter tpu delete`?"),
        ("stpo", "Did you mean `jupyter tpu stop`?"),
        ("idle", "`jupyter tpu --help` lists all commands."),
        ("setp", "Did you mean `jupyter tpu setup`?"),
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
