"""The recipes of docs/how-to/recipes: plain JAX runs on a node, the others are at least whole."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient

RECIPES = Path(__file__).parents[3] / "docs" / "how-to" / "recipes"
NAMES = ("flax_optax", "jax", "tf_keras", "torch_tpu", "torch_xla_spmd", "transformers")


def test_there_is_a_recipe_for_each_of_them() -> None:
    assert sorted(path.stem for path in RECIPES.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_begins_with_tpu_init_is_python_and_is_kept_without_outputs(name: str) -> None:
    cells = code_of(name)
    assert cells[0]["source"].startswith("%tpu_init ")
    for cell in cells:
        ast.parse(TransformerManager().transform_cell(cell["source"]))
        assert (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_on_frameworks_says_how_a_recipe_was_run(name: str) -> None:
    page = (RECIPES.parent / "start-a-framework.md").read_text(encoding="utf-8")
    assert f"(recipes/{name}.ipynb)" in page


def test_plain_jax_runs_on_all_devices_of_a_node(kernel_name: str) -> None:
    notebook = nbformat.read(RECIPES / "jax.ipynb", as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name=kernel_name).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    assert "y = 3.00 x + 2.00" in printed


def code_of(name: str) -> list[Any]:
    notebook = nbformat.read(RECIPES / f"{name}.ipynb", as_version=4)
    return [cell for cell in notebook.cells if cell["cell_type"] == "code"]
