"""Which framework a ``%tpu_init`` line means."""

from __future__ import annotations

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.notebook.tpu_init import parse_framework


@pytest.mark.parametrize("line", ["", "  ", "auto", "jax", " jax "])
def test_jax_is_what_is_meant_unless_something_else_is_said(line):
    assert parse_framework(line) == "jax"


@pytest.mark.parametrize("line", ["torch_xla", "torch_tpu", "tf"])
def test_the_other_frameworks_come_later(line):
    with pytest.raises(BadInput, match="comes later"):
        parse_framework(line)


@pytest.mark.parametrize("line", ["numpy", "jax tf", "--help", "<b>", "x" * 1000])
def test_anything_else_is_refused_with_what_exists(line):
    with pytest.raises(BadInput) as refused:
        parse_framework(line)
    assert "auto, jax" in refused.value.hint
    assert len(refused.value.message) < 200
