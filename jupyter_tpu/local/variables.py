"""Brings variables back from a kernel on a node: the other half of `notebook.carrying`. Nothing from there is run."""

from __future__ import annotations

import ast
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from jupyter_tpu.errors import AgentBroken, BadInput

_PACK = "__import__('jupyter_tpu.notebook.carrying', fromlist=['pack']).pack({name!r}, get_ipython().user_ns)"


class Kernel(Protocol):
    """What can be asked for the value of an expression."""

    def evaluate(self, expression: str) -> Mapping[str, Any]:
        """See `RemoteKernel.evaluate`."""


def fetch(kernel: Kernel, name: str) -> Any:
    """The value of a variable there.

    Raises:
        BadInput: it cannot come back; the text says why.
        AgentBroken: what came is nonsense.
    """
    answer = kernel.evaluate(_PACK.format(name=name))
    if answer.get("status") != "ok":
        raise BadInput(str(answer.get("evalue") or f"{name} did not come back.")[:2000])
    try:
        return unpacked(json.loads(ast.literal_eval(answer["data"]["text/plain"])))
    except (KeyError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        raise AgentBroken(f"What came back for {name} cannot be read.", raw=str(error)[:500]) from error


def unpacked(value: Any) -> Any:
    """The inverse of `notebook.carrying.packed`; raises KeyError, TypeError or ValueError for anything else."""
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    return _UNPACK[tag](content)


def _array(content: Mapping[str, Any]) -> Any:
    try:
        import numpy
    except ModuleNotFoundError:
        raise BadInput("An array has come back, but this kernel has no NumPy.", hint="%pip install numpy") from None
    dtype = numpy.dtype(content["dtype"])
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return numpy.frombuffer(base64.b64decode(content["content"]), dtype).reshape(content["shape"]).copy()


def _items(content: list[Any]) -> list[Any]:
    return [unpacked(item) for item in content]


_UNPACK: dict[str, Callable[[Any], Any]] = {
    "bytes": base64.b64decode,
    "list": _items,
    "tuple": lambda content: tuple(_items(content)),
    "set": lambda content: set(_items(content)),
    "frozenset": lambda content: frozenset(_items(content)),
    "dict": lambda content: {unpacked(key): unpacked(item) for key, item in content},
    "array": _array,
    "scalar": lambda content: _array(content)[()],
    "int": lambda content: int(content, 16),
    "complex": lambda content: complex(*content),
}
