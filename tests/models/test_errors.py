"""Texts of errors keep their template and arguments, on their way through JSON too; what others send is checked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import LONGEST_TEXT, NodeNotFound, Text, TpuError, error_from_json

NO_NODE = Text("There is no node {node} in {zone}.", node="my-node", zone="us-central1-a")


def through_json(error: TpuError) -> TpuError:
    return error_from_json(json.loads(json.dumps(error.to_json())))


def test_a_text_is_its_template_with_the_arguments() -> None:
    assert NO_NODE == "There is no node my-node in us-central1-a."
    assert NO_NODE.template == "There is no node {node} in {zone}."
    assert NO_NODE.arguments == {"node": "my-node", "zone": "us-central1-a"}


@pytest.mark.parametrize(
    ("value", "kept"), [(3, 3), (1.5, "1.5"), (True, "True"), (None, "None"), ("{node}", "{node}")]
)
def test_an_argument_is_kept_as_it_is_shown(value: object, kept: str | int) -> None:
    text = Text("{value} {node}", value=value, node="n")
    assert (text, text.arguments["value"]) == (f"{value} n", kept)


def test_braces_without_an_argument_stay() -> None:
    assert Text("Send {} or {other} for {count}.", count=2) == "Send {} or {other} for 2."


def test_an_error_shows_templates_and_arguments_beside_its_text() -> None:
    hint = Text("Create it with {command}.", command="jupyter tpu create")
    shown = NodeNotFound(NO_NODE, exists="Nothing is billed.", hint=hint).to_json()
    assert (shown["message"], shown["exists"], shown["hint"]) == (NO_NODE, "Nothing is billed.", hint)
    assert shown["templates"] == {"message": NO_NODE.template, "hint": hint.template}
    assert shown["arguments"] == {"node": "my-node", "zone": "us-central1-a", "command": "jupyter tpu create"}


def test_an_error_keeps_its_templates_through_json() -> None:
    error = NodeNotFound(NO_NODE, hint=Text("Use 1 to {most}.", most=3))
    assert through_json(error) == error
    assert isinstance(through_json(error).message, Text)


OUTER = Text("Stopped: {cause}", cause=Text("{why} ({when})", why=Text("{node} is idle", node="n"), when=5))


def test_a_text_in_a_text_keeps_its_template_through_json_to_any_depth() -> None:
    error = TpuError(OUTER)
    shown = error.to_json()
    # what an earlier version reads
    assert (shown["templates"]["message"], shown["arguments"]) == ("Stopped: {cause}", {"cause": "n is idle (5)"})
    assert shown["texts"]["cause"]["texts"]["why"]["template"] == "{node} is idle"
    again = through_json(error).message
    assert isinstance(again, Text)
    assert again == OUTER
    assert again.to_json() == OUTER.to_json()


def test_an_error_that_is_made_again_keeps_its_templates() -> None:
    error = through_json(NodeNotFound(NO_NODE))
    assert TpuError(error.message, hint=error.hint).to_json()["templates"] == {"message": NO_NODE.template}


def test_a_text_that_contradicts_another_stays_in_english() -> None:
    error = NodeNotFound(NO_NODE, hint=Text("Use {node}.", node="other"))
    shown = error.to_json()
    assert (shown["hint"], shown["arguments"]["node"]) == ("Use other.", "my-node")
    assert list(shown["templates"]) == ["message"]
    assert through_json(error) == error


def test_an_error_of_an_earlier_version_has_no_templates() -> None:
    error = error_from_json({"code": "node_not_found", "message": "{node}", "exists": "", "hint": "h", "raw": ""})
    assert (error.message, error.hint, error.to_json()["templates"]) == ("{node}", "h", {})


def test_no_part_of_a_text_can_control_a_terminal() -> None:
    error = TpuError(Text("\x1b[2J{name}\u202e", name="\x1b]52;c;eA==\x07"))
    assert error.message == "[2J]52;c;eA=="
    assert error.to_json()["templates"] == {"message": "[2J{name}"}
    assert error.to_json()["arguments"] == {"name": "]52;c;eA=="}


def test_a_text_that_is_cut_has_no_template() -> None:
    shown = TpuError(Text("{name}", name="a" * LONGEST_TEXT + "b")).to_json()
    assert (shown["message"], shown["templates"], shown["arguments"]) == ("a" * LONGEST_TEXT, {}, {})


FOREIGN: list[dict[str, Any]] = [
    {"templates": {"message": "Deleted {node}."}, "arguments": {"node": "x"}},
    {"templates": {"message": "{a}" * 1000}, "arguments": {"a": "b" * 10**7}},
    {"templates": {"message": "{a.__class__}"}, "arguments": {"a": "Failed."}},
    {"templates": {"message": "{a}"}, "arguments": {"a": ["Failed."]}},
    {"templates": {"message": "{a}"}, "arguments": None},
    {"templates": ["message"], "arguments": {}},
    {"templates": {"message": "{a}"}, "arguments": {"a": "x"}, "texts": {"a": {"template": "Failed."}}},
    {"templates": {"message": 7}, "arguments": {}},
]


@pytest.mark.parametrize("data", FOREIGN)
def test_a_template_of_another_text_is_left_out(data: dict[str, Any]) -> None:
    error = error_from_json({"code": "tpu_error", "message": "Failed.", **data})
    assert (error.message, error.to_json()["templates"]) == ("Failed.", {})


FOREIGN_TEXTS: list[Any] = [
    {"template": "Deleted {node}.", "arguments": {"node": "x"}},
    {"template": "{a}" * 1000, "arguments": {"a": "b" * 10**7}},
    {"template": ["Failed."]},
    ["Failed."],
    7,
]


@pytest.mark.parametrize("text", FOREIGN_TEXTS)
def test_a_value_with_a_template_of_another_text_is_plain(text: Any) -> None:
    made = {"templates": {"message": "{a}"}, "arguments": {"a": "Failed."}}
    error = error_from_json({"message": "Failed.", **made, "texts": {"a": text}})
    assert error.to_json()["texts"] == {}
    assert error == error_from_json({"message": "Failed.", **made, "texts": text})


def test_a_text_that_is_endlessly_deep_ends_at_a_plain_value() -> None:
    text: dict[str, Any] = {"template": "Failed."}
    for _ in range(5000):
        text = {"template": "{a}", "arguments": {"a": "Failed."}, "texts": {"a": text}}
    data = {"templates": {"message": "{a}"}, "arguments": {"a": "Failed."}, "texts": {"a": text}}
    assert error_from_json({"message": "Failed.", **data}).message == "Failed."


@given(st.text(), st.dictionaries(st.sampled_from("abc"), st.text() | st.integers()))
def test_any_text_survives_its_json(template: str, arguments: dict[str, str | int]) -> None:
    error = TpuError(Text(template, **arguments))
    again = through_json(error)
    assert (again.message, again.to_json()["templates"]) == (error.message, error.to_json()["templates"])
