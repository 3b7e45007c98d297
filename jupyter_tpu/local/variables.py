"""Copy variables from a kernel on a node as plain values. The node's part is in `notebook.carrying`.

Pickles are not used, because loading them executes code, and no code from a node may run on the user's machine.
"""

from __future__ import annotations

import ast
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from jupyter_tpu.errors import AgentBroken, BadInput, Text

# Evaluated in the kernel on the node, so it must import the module there and leave no variable behind.
_PACK = "__import__('jupyter_tpu.notebook.carrying', fromlist=['pack']).pack({name!r}, get_ipython().user_ns)"


class Kernel(Protocol):
    """A kernel that can evaluate an expression."""

    def evaluate(self, expression: str) -> Mapping[str, Any]:
        """Evaluate an expression. See `RemoteKernel.evaluate`."""


def fetch(kernel: Kernel, name: str) -> Any:
    """Return the value of a variable on the node.

    Raises:
        BadInput: the variable cannot be copied; the message explains why.
        AgentBroken: the response is invalid.
    """
    answer = kernel.evaluate(_PACK.format(name=name))
    if answer.get("status") != "ok":
        # The text of a `BadInput` from the node, which contains the variable's name and the hint.
        why = str(answer.get("evalue") or "")[:2000]
        raise BadInput(why or Text("{name} could not be copied from the node.", name=name))
    try:
        # The value is the text/plain form of a string: its repr, which is quoted JSON.
        return unpack(json.loads(ast.literal_eval(answer["data"]["text/plain"])))
    except (KeyError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        raise AgentBroken(
            Text("The node's response for {name} cannot be read.", name=name), raw=str(error)[:500]
        ) from error


def unpack(value: Any) -> Any:
    """Unpack a value from `notebook.carrying`; raises KeyError, TypeError or ValueError if it is invalid."""
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    return _UNPACK[tag](content)


def _array(content: Mapping[str, Any]) -> Any:
    try:
        import numpy
    except ModuleNotFoundError:
        raise BadInput(
            "The value is an array, but this kernel has no NumPy.", hint="Install NumPy with `%pip install numpy`."
        ) from None
    dtype = numpy.dtype(content["dtype"])
    # Its elements would be Python objects, which bytes can't represent.
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return numpy.frombuffer(base64.b64decode(content["content"]), dtype).reshape(content["shape"]).copy()


def _items(content: list[Any]) -> list[Any]:
    return [unpack(item) for item in content]


_UNPACK: dict[str, Callable[[Any], Any]] = {
    "bytes": base64.b64decode,
    "list": _items,
    "tuple": lambda content: tuple(_items(content)),
    "set": lambda content: set(_items(content)),
    "frozenset": lambda content: frozenset(_items(content)),
    "dict": lambda content: {unpack(key): unpack(item) for key, item in content},
    "array": _array,
    "scalar": lambda content: _array(content)[()],
    "int": lambda content: int(content, 16),
    "complex": lambda content: complex(*content),
}
