"""The outputs of random messages of several cells are those that nbclient puts into the notebook."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import nbformat.v4
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

from jupyter_tpu.outputs import Reducer, render

if TYPE_CHECKING:
    from conftest import Recorded

CELLS = 3
bundles = st.fixed_dictionaries(
    {"data": st.fixed_dictionaries({"text/plain": st.text("xyz", max_size=3)}), "metadata": st.just({})}
)
display_ids = st.sampled_from([{}, {}, {"display_id": "a"}, {"display_id": "b"}])
streams = st.fixed_dictionaries({"name": st.sampled_from(["stdout", "stderr"]), "text": st.text("abc\n", min_size=1)})


def displayed(kind: str, **more: Any) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.builds(lambda bundle, transient: (kind, {**bundle, **more, "transient": transient}), bundles, display_ids)


contents = st.one_of(
    st.tuples(st.just("stream"), streams),
    displayed("display_data"),
    displayed("update_display_data"),
    displayed("execute_result", execution_count=7),
    st.tuples(st.just("error"), st.just({"ename": "E", "evalue": "e", "traceback": ["line"]})),
    st.tuples(st.just("clear_output"), st.builds(lambda wait: {"wait": wait}, st.booleans())),
    st.tuples(
        st.just("execute_input"), st.builds(lambda count: {"code": "", "execution_count": count}, st.integers(1, 9))
    ),
    st.tuples(st.just("status"), st.sampled_from([{"execution_state": "busy"}, {"execution_state": "idle"}])),
)
sequences = st.lists(st.tuples(st.integers(0, CELLS - 1), contents), max_size=40)


def of_nbclient(sequence: list[tuple[int, tuple[str, dict[str, Any]]]]) -> list[tuple[Any, list[Any]]]:
    """nbclient runs cell by cell, so the one flag for a cell that waits to be cleared is kept for each cell here."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell() for _ in range(CELLS)])
    client = NotebookClient(notebook, record_timing=False)
    waiting = [False] * CELLS
    for place, (kind, content) in sequence:
        message = {
            "msg_type": kind,
            "header": {"msg_type": kind},
            "parent_header": {"msg_id": str(place)},
            "content": copy.deepcopy(content),
        }
        client.clear_before_next_output = waiting[place]
        with suppress(CellExecutionComplete):
            client.process_message(message, notebook.cells[place], place)
        waiting[place] = client.clear_before_next_output
    return [(cell.execution_count, merged(json.loads(json.dumps(cell.outputs)))) for cell in notebook.cells]


def merged(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Consecutive streams of one name as one, which nbclient leaves to the reader of the file."""
    together: list[dict[str, Any]] = []
    for output in outputs:
        last = together[-1] if together else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["text"] += output["text"]
        else:
            together.append(output)
    return together


@given(sequences)
def test_outputs_are_those_of_nbclient(
    recorded: Recorded, reduce: Callable[..., Reducer], sequence: list[tuple[int, tuple[str, dict[str, Any]]]]
) -> None:
    asked = [recorded.asked(str(place)) for place in range(CELLS)]
    said = [recorded.said(kind, str(place), **content) for place, (kind, content) in sequence]

    reducer = reduce([*asked, *said])

    ours = [(request.execution_count, without_names(render(request).outputs)) for request in reducer.requests.values()]
    assert ours == of_nbclient(sequence)
    assert reducer.skipped == 0


def without_names(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in output.items() if name != "transient"} for output in outputs]
