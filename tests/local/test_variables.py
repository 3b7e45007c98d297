"""Values that travel from a node come back as they were, and nothing else comes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from jupyter_tpu.errors import AgentBroken, BadInput
from jupyter_tpu.local.variables import fetch, unpack
from jupyter_tpu.notebook.carrying import pack

PLAIN = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text() | some.binary()
HASHABLE = some.integers() | some.text() | some.binary() | some.tuples(some.integers(), some.text())
VALUES = some.recursive(
    PLAIN,
    lambda inner: (
        some.lists(inner)
        | some.tuples(inner, inner)
        | some.dictionaries(HASHABLE, inner)
        | some.sets(HASHABLE)
        | some.frozensets(HASHABLE)
    ),
    max_leaves=20,
)


class Answers:
    """A kernel on a node that answers as it is told."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def evaluate(self, expression: str) -> dict[str, Any]:
        return self._answer


def carried(value: Any) -> Any:
    return unpack(json.loads(pack("x", {"x": value})))


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert carried(value) == value


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int8", "uint64", "bool", "complex64", "datetime64[s]", "U3", ">i4"]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_an_array_comes_back_as_it_was(dtype: str, shape: tuple[int, ...]) -> None:
    array = numpy.ones(shape, dtype)
    back = carried(array)
    numpy.testing.assert_array_equal(back, array)
    assert (back.dtype, back.shape, back.flags.writeable) == (array.dtype, shape, True)


@pytest.mark.parametrize(
    "value",
    [
        *(numpy.float64(2.5), numpy.float32(0.1), numpy.int64(-3), numpy.bool_(True), numpy.datetime64("2026-11-22")),
        *(pytest.param(10**5000, id="5001 digits"), pytest.param(-(10**5000), id="less than nothing"), 2**64, 2j),
        {numpy.int64(3): "x"},
        {numpy.float64(1)},
    ],
)
def test_a_number_comes_back_as_the_number_it_was(value: Any) -> None:
    back = carried(value)
    assert back == value
    assert type(back) is type(value)
    if isinstance(value, (dict, set)):
        assert [type(each) for each in back] == [type(each) for each in value]


@pytest.mark.parametrize(
    "value",
    [
        numpy.zeros(2, [("a", "i8")]),
        numpy.zeros(2, [("a", "i8"), ("b", "f8")]),
        numpy.ma.array([1, 2], mask=[0, 1]),
        numpy.array([object()]),
        object(),
    ],
)
def test_what_would_be_changed_on_the_way_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="cannot be copied"):
        pack("x", {"x": [value]})


@pytest.mark.parametrize(
    "value", [numpy.zeros(3_000_000), "x" * 17_000_000, [b"x" * 1_000_000] * 17, list(range(3_000_000))]
)
def test_what_is_too_large_is_refused_before_it_is_built(value: Any) -> None:
    with pytest.raises(BadInput, match="too large to copy"):
        pack("x", {"x": value})


def test_arrays_of_jax_become_arrays_of_numpy() -> None:
    packing = (
        "import jax.numpy; from jupyter_tpu.notebook.carrying import pack;"
        "print(pack('weights', {'weights': jax.numpy.ones((2, 2), 'bfloat16')}))"
    )
    # in a process of its own: JAX warns of each later fork of its process
    packed = subprocess.run([sys.executable, "-c", packing], capture_output=True, text=True, check=True).stdout
    back = unpack(json.loads(packed))
    assert (type(back), back.dtype, back.tolist()) == (numpy.ndarray, numpy.float32, [[1.0, 1.0], [1.0, 1.0]])


def array_of(dtype: str, shape: list[int]) -> str:
    return repr(json.dumps({"array": {"dtype": dtype, "shape": shape, "content": "AAAA"}}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "'{'",
        "'{}'",
        "open('x')",
        """'{"array": 1}'""",
        """'{"nonsense": []}'""",
        array_of("O", [1]),
        array_of("i4", [9]),
    ],
)
def test_nonsense_from_a_node_is_an_error(text: str) -> None:
    with pytest.raises(AgentBroken, match="cannot be read"):
        fetch(Answers({"status": "ok", "data": {"text/plain": text}}), "x")


def test_what_the_node_refuses_is_said() -> None:
    with pytest.raises(BadInput, match="too large"):
        fetch(Answers({"status": "error", "ename": "BadInput", "evalue": "x is too large to copy"}), "x")
