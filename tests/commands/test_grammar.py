"""One table says what a command accepts, in the terminal and in a notebook; what it does not accept is an error."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from jupyter_tpu.cli.arguments import COMMANDS, MODULES
from jupyter_tpu.cli.overview import Overview
from jupyter_tpu.commands.extension import extension
from jupyter_tpu.commands.grammar import NOTEBOOK, TERMINAL, Command, parse_words
from jupyter_tpu.commands.shared import EXTEND, ON_NODE
from jupyter_tpu.errors import BadInput
from jupyter_tpu.local.commands import ATTACH, CELL, DETACH

NOON = datetime.datetime(2026, 6, 1, 12).timestamp()
IN_BOTH = sorted(ON_NODE.keys() & COMMANDS.keys())


def test_every_command_has_a_module_that_runs_it() -> None:
    assert sorted(name for names in MODULES.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("name", IN_BOTH)
def test_an_option_of_a_notebook_means_the_same_in_the_terminal(name: str) -> None:
    in_terminal = {each.names: each for each in COMMANDS[name].all_arguments(TERMINAL)}
    for each in ON_NODE[name].all_arguments(NOTEBOOK):
        assert in_terminal[each.names] is each


@pytest.mark.parametrize(
    ("words", "params"),
    [
        ("", {"for_s": 3600}),
        ("90m", {"for_s": 5400}),
        ("--for 90m", {"for_s": 5400}),
        ("until 18:00", {"until": NOON + 6 * 3600}),
        ("--until 18:00", {"until": NOON + 6 * 3600}),
        ("until 11:00", {"until": NOON + 23 * 3600}),
        ("while-busy", {"while_busy": True}),
        ("--while-busy", {"while_busy": True}),
        ("off", {}),
        ("--off", {}),
    ],
)
def test_an_extension_is_written_in_words_or_as_options_in_both_places(words: str, params: Any) -> None:
    in_terminal = Overview().parse_args(["extend", "my-node", *words.split()])
    for options in (parse_words(EXTEND, words.split()), in_terminal):
        assert extension(options, NOON) == params


@pytest.mark.parametrize(
    "words",
    [
        "forever",
        "until noon",
        "--until noon",
        "-1h",
        "until",
        "1h 2h",
        "9999999h",
        "--for 9999999h",
        "--for 0h",
        "--for",
        "while_busy",
        "off now",
        "off --off",
        "--off --while-busy",
        "--whi",
        "\u0661h",
        "until 1\u0668:00",
    ],
)
def test_any_other_extension_is_refused_with_what_to_write(words: str) -> None:
    with pytest.raises(BadInput) as caught:
        extension(parse_words(EXTEND, words.split()), NOON)
    assert caught.value.hint
    assert caught.value.exists.startswith("Nothing was")


BAD_WORDS = (
    *("--nonsense", "-x", "--", "-- --yes", "--json=1", "--yes=1", "a b c d", "=", "-", "'", "--p 1", "\x1b[2J"),
    *("--pid", "--pid x", "--pid -1", "--pid 0", "--pid 1.5", "--pid \u0663", "--pid 99999999999", "--pid 1 --pid"),
    *("--zone us-central1-a", "--project p", "--version", "--hel", "x" * 100_000, "--" + "y" * 100_000, "@/etc/passwd"),
)


@pytest.mark.parametrize("command", [*ON_NODE.values(), ATTACH, DETACH, CELL], ids=lambda each: each.name or "cell")
def test_bad_words_never_end_the_kernel(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [error for error in map(refusal_of, [command] * len(BAD_WORDS), BAD_WORDS) if error]
    assert len(refused) >= 14
    for error in refused:
        assert len(error.message) < 300
        assert "\x1b" not in error.message
        assert error.hint.endswith("--help` lists the valid arguments.")
    assert capsys.readouterr() == ("", "")


def refusal_of(command: Command, words: str) -> BadInput | None:
    try:
        parse_words(command, words.split())
    except BadInput as error:
        return error
    return None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--pid", "--pid requires a value."),
        ("--pid ten", "--pid: 'ten' is not a whole number from 1 to 4,194,304."),
        ("--pids 3", "--pids 3 is not a valid argument here."),
    ],
)
def test_an_error_is_a_sentence_about_what_was_typed(words: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_words(ON_NODE["release"], words.split())
    assert caught.value.message == said
    assert caught.value.hint == "`%tpu release --help` lists the valid arguments."
