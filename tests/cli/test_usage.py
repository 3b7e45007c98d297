"""What a command line that cannot be understood is answered, by every command."""

from __future__ import annotations

import argparse
import json

import pytest

from jupyter_tpu.cli import main
from jupyter_tpu.cli.overview import Overview
from jupyter_tpu.cli.terminal import SCHEMA_VERSION

COMMANDS: dict[str, argparse.ArgumentParser] = dict(Overview().commands.choices)
WITH_JSON = [name for name, parser in COMMANDS.items() if "--json" in parser._option_string_actions]
NEEDS_NO_YES = {
    "list",
    "describe",
    "cost",
    "quota",
    "audit",
    "top",
    "ps",
    "doctor",
    "ssh",
    "demo",
    "emulator",
    "version",
    # these do what was typed, and neither spend nor delete
    "cp",
    "ports",
}
WITHOUT_JSON = {"demo", "emulator", "kernelspec", "ssh", "ssh-config"}


def test_every_command_but_those_that_print_no_data_has_json() -> None:
    assert set(COMMANDS) - set(WITH_JSON) <= WITHOUT_JSON


def test_every_command_that_changes_something_takes_yes() -> None:
    assert {name for name, parser in COMMANDS.items() if "--yes" not in parser._option_string_actions} == NEEDS_NO_YES


@pytest.mark.parametrize("name", WITH_JSON)
def test_a_usage_error_with_json_is_one_json_document(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([name, "--no-such-option", "--json"])
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert (code, said.err) == (2, "")
    assert (document["schema_version"], document["error"]["code"]) == (SCHEMA_VERSION, "usage")
    assert document["error"]["hint"].startswith("See `jupyter tpu")


def test_a_usage_error_for_people_names_the_command_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extend"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("usage: jupyter tpu extend ")
    assert "\njupyter tpu extend: error: " in said.err


def test_an_argument_too_many_is_answered_with_the_usage_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "nodes"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: jupyter tpu list ")
    assert "jupyter tpu list: error: nodes is not a valid argument here." in said


@pytest.mark.parametrize("argv", [["lst", "--json"], ["list", "--json", "--", "x"]])
def test_what_is_no_command_at_all_is_told_in_json_too(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_every_document_has_the_version_of_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("brakes", "autostop"),
        ("free", "release"),
        ("keep", "extend"),
        ("panic", "stop --all"),
        ("sweep", "cleanup"),
        ("who", "ps"),
    ],
)
def test_a_command_by_its_old_name_is_the_new_one_and_says_so(
    old: str, now: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([old, "--help"])
    said = capsys.readouterr()
    assert left.value.code == 0
    assert said.out.startswith(f"usage: jupyter tpu {now.split()[0]} ")
    assert said.err == f"`jupyter tpu {old}` is now `jupyter tpu {now}`. The old name works until the next version.\n"


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["stop"], "name one NODE, or --all for every node"),
        (["stop", "my-node", "--all"], "name one NODE, or --all for every node"),
        (["stop", "--all", "--zone", "us-central1-a", "--yes"], "--all stops everything billable in every zone"),
    ],
)
def test_stop_takes_one_node_or_all(argv: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert why in capsys.readouterr().err
