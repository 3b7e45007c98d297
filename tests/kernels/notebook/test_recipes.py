"""The recipes of docs/how-to/recipes: those of plain JAX run on a node and a slice, the others are at least whole."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient

from jupyter_tpu.kernels.kernelspecs import write_kernelspec

if TYPE_CHECKING:
    from conftest import Cloud

RECIPES = Path(__file__).parents[3] / "docs" / "how-to" / "recipes"
NAMES = ("flax_optax", "jax", "jax_slice", "tf_keras", "torch_tpu", "torch_xla_spmd", "transformers")


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


@pytest.mark.nightly
def test_plain_jax_runs_on_all_devices_of_a_node(kernel_name: str) -> None:
    assert "y = 3.00 x + 2.00" in printed_by("jax", kernel_name)


@pytest.mark.nightly  # 16 devices on one machine
def test_training_runs_on_all_workers_of_a_slice_and_only_worker_0_writes_the_checkpoint(cloud: Cloud) -> None:
    node = cloud.create_node("my-slice", accelerator_type="v5litepod-16")
    printed = printed_by("jax_slice", write_kernelspec(node, cloud.settings))
    assert "16 devices of 4 workers" in printed
    assert "weights: [0. 1. 2. 3. 4. 5. 6. 7.]" in printed
    assert [any(cloud.home_of(node, worker).rglob("checkpoint.npz")) for worker in range(4)] == [True, *[False] * 3]


@pytest.mark.nightly
def test_the_notebook_for_a_slice_also_runs_on_a_node_with_one_worker(kernel_name: str) -> None:
    assert "8 devices of 1 workers" in printed_by("jax_slice", kernel_name)


def printed_by(name: str, kernel_name: str) -> str:
    notebook = nbformat.read(RECIPES / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name=kernel_name).execute()
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))


def code_of(name: str) -> list[Any]:
    notebook = nbformat.read(RECIPES / f"{name}.ipynb", as_version=4)
    return [cell for cell in notebook.cells if cell["cell_type"] == "code"]
