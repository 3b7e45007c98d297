"""The actions of errors are commands of the front end, and replace the commands that hints name for a terminal."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from jupyter_tpu.error_actions import ARGUMENTS
from jupyter_tpu.errors import all_errors

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_tpu"
SOURCES = ROOT / "labextension" / "src"
# what the panel can do, by the command of the terminal
_PANEL_CAN = re.compile(
    r"jupyter tpu (list|create|start|stop|delete|quota|budget|cleanup|search|queue|grant|recover|autostop)\b"
)
_FOR_THE_PANEL = ("cloud", "fleet", "journal", "lifecycle", "server")
_MODULES = sorted(path for part in _FOR_THE_PANEL for path in (PACKAGE / part).rglob("*.py"))
_ERRORS = {error.__name__ for error in all_errors().values()}
_OPTION = re.compile(r"(?<![\w-])--[a-z]")
# What is set up outside the panel; the form asks for an unknown price before it sends a request.
_SET_ELSEWHERE = {"google.py", "settings.py", "enforcer.py"}


def front_end_commands() -> set[str]:
    """The ids in the front end's lists of commands."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("tokens.ts")]
    return {found for text in texts for found in re.findall(r"export const \w+ = '(tpu:[\w-]+)'", text)}


def described_action() -> dict[str, Any]:
    described = yaml.safe_load((PACKAGE / "server" / "rest-api.yml").read_text(encoding="utf-8"))
    action: dict[str, Any] = described["components"]["schemas"]["Action"]
    return action


@pytest.mark.parametrize("command", ARGUMENTS)
def test_the_front_end_has_each_command(command: str) -> None:
    assert command in front_end_commands()


def test_the_rest_api_lists_each_command() -> None:
    assert set(described_action()["properties"]["command"]["enum"]) == set(ARGUMENTS)


def test_a_hint_names_no_command_for_what_a_button_could_do() -> None:
    hints = hints_without_actions(_MODULES)
    assert hints
    assert [hint for hint in hints if _PANEL_CAN.search(hint)] == []


def test_a_hint_for_the_panel_names_no_option_of_a_terminal() -> None:
    hints = hints_without_actions([module for module in _MODULES if module.name not in _SET_ELSEWHERE])
    assert [hint for hint in hints if _OPTION.search(hint)] == []


def hints_without_actions(modules: list[Path]) -> list[str]:
    """Each with its place; as they stand in the source."""
    return [
        f"{module}:{call.lineno}: {given['hint']}"
        for module in modules
        for call in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _ERRORS
        for given in [{each.arg: ast.unparse(each.value) for each in call.keywords}]
        if "hint" in given and "actions" not in given
    ]
