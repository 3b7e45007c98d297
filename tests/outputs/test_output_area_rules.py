"""The examples of lab_examples.json, which JupyterLab's own output area is held against in the front end's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_tpu.outputs import Reducer, render

if TYPE_CHECKING:
    from conftest import Recorded

EXAMPLES = json.loads(Path(__file__).with_name("lab_examples.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["name"] for example in EXAMPLES])
def test_outputs_are_those_of_jupyterlab(
    recorded: Recorded, reduce: Callable[..., Reducer], example: dict[str, Any]
) -> None:
    said = [recorded.said(message["msg_type"], **message["content"]) for message in example["messages"]]

    request = reduce([recorded.asked("r"), *said]).requests["r"]

    outputs = [{name: value for name, value in each.items() if name != "transient"} for each in render(request).outputs]
    assert outputs == example["outputs"]
