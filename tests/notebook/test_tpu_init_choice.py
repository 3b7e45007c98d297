"""Which framework a ``%tpu_init`` line means."""

from __future__ import annotations

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.frameworks import FRAMEWORKS
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.tpu_init.choice import Choice, choose_framework, nothing_installed
from jupyter_tpu.notebook.tpu_init.command import STARTS


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_that_is_named_is_taken_whatever_else_is_there(framework):
    assert choose_framework(f" {framework} ", ["jax", "tf"], FRAMEWORKS) == Choice(framework)


def test_every_framework_can_be_started():
    assert tuple(STARTS) == FRAMEWORKS


@pytest.mark.parametrize("line", ["", "  ", "auto", " auto "])
@pytest.mark.parametrize(
    ("imported", "installed", "taken", "why"),
    [
        ([], ["jax"], "jax", "installed"),
        ([], ["torch_xla"], "torch_xla", "installed"),
        (["tf"], ["jax", "tf"], "tf", "imported"),
        (["torch_tpu"], ["torch_tpu"], "torch_tpu", "imported"),
    ],
)
def test_auto_takes_what_is_imported_else_what_is_installed_and_says_why(line, imported, installed, taken, why):
    choice = choose_framework(line, imported, installed)
    assert choice is not None
    assert choice.framework == taken
    assert why in choice.why


@pytest.mark.parametrize(
    ("imported", "installed", "words"),
    [
        ([], ["jax", "tf"], "JAX and TensorFlow are installed"),
        (["jax", "torch_xla"], ["jax", "torch_xla"], "JAX and PyTorch/XLA are imported"),
        ([], ["jax", "torch_xla", "tf"], "JAX, PyTorch/XLA and TensorFlow are installed"),
    ],
)
def test_of_several_auto_asks_for_one(imported, installed, words):
    with pytest.raises(BadInput) as refused:
        choose_framework("auto", imported, installed)
    assert words in refused.value.message
    assert f"`%tpu_init {installed[0]}` or `%tpu_init {installed[1]}`" in refused.value.hint


def test_where_nothing_is_installed_the_hint_is_how_to_install():
    assert choose_framework("", [], []) is None
    error = nothing_installed(this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8"}))
    assert '%pip install "jax[tpu]==' in error.hint


@pytest.mark.parametrize("line", ["numpy", "jax tf", "--help", "<b>", "x" * 1000])
def test_anything_else_is_refused_with_what_exists(line):
    with pytest.raises(BadInput) as refused:
        choose_framework(line, [], ["jax"])
    assert "auto, jax, torch_xla, torch_tpu, tf" in refused.value.hint
    assert len(refused.value.message) < 200
