"""Pack variables of a kernel on a node as JSON for a kernel on another machine: plain values, never code or pickles.

`jupyter_tpu.local.variables` is the counterpart and imports this module by name, in the kernel on the node.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.errors import BadInput, Text

# The value is sent in one reply message and stored in the kernel's record. Larger data belongs in a file.
MOST_BYTES = 16 * 1024 * 1024
_PLAIN = (type(None), bool, int, float)
# Send a longer integer in hexadecimal: Python refuses to convert thousands of decimal digits (CVE-2020-10735).
_LONG_BITS = 64
_LISTS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
# Packages whose arrays NumPy can read; the check compares names, because importing a package would start its framework.
_ARRAYS = ("jax", "jaxlib", "tensorflow", "torch")
# Prefixes of the names of JAX's own types, which NumPy doesn't support, each with a NumPy type that can represent all
# of their values.
_WIDER = (("bfloat", "float32"), ("float", "float32"), ("int", "int8"), ("uint", "uint8"))


def pack(name: str, namespace: Mapping[str, Any]) -> str:
    """Return the variable `name` as JSON text; arrays of JAX, PyTorch and TensorFlow become NumPy arrays.

    Raises:
        BadInput: there is no such variable, its type is not supported, or it is too large.
    """
    if name not in namespace:
        raise BadInput(Text("The node has no variable {name}.", name=repr(name)), hint="Set the variable in the cell.")
    # A list that contains itself has no JSON form; Python detects it by the recursion limit.
    try:
        return json.dumps(_Packing(name).packed(namespace[name]))
    except RecursionError:
        raise BadInput(Text("{name} is nested too deeply, or contains itself.", name=name)) from None


class _Packing:
    """The conversion of one variable; it stops if the result would exceed `MOST_BYTES`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MOST_BYTES

    def packed(self, value: Any) -> Any:
        """Convert a value to one that `json.dumps` accepts.

        A value without a JSON type becomes an object with a tag, such as ``{"complex": [1.0, 2.0]}``.
        `jupyter_tpu.local.variables` converts it back.
        """
        # Count a rough size for each item, so that a list of millions of small numbers is limited, too.
        self._spend(8)
        kind = type(value)
        if kind is int and value.bit_length() > _LONG_BITS:
            # a hexadecimal digit has four bits
            self._spend(value.bit_length() // 4)
            return {"int": hex(value)}
        if kind in _PLAIN:
            return value
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind is str:
            self._spend(len(value))
            return value
        if kind is bytes:
            return {"bytes": self._text(value)}
        if kind in _LISTS:
            return {_LISTS[kind]: [self.packed(item) for item in value]}
        if kind is dict:
            return {"dict": [[self.packed(key), self.packed(item)] for key, item in value.items()]}
        return self._array(value)

    def _array(self, value: Any) -> dict[str, Any]:
        # Check the type's package, so that a kernel without NumPy can still return plain values.
        package = type(value).__module__.partition(".")[0]
        if package not in ("numpy", *_ARRAYS):
            raise self._refusal(Text("A {type}", type=type(value).__name__))
        numpy = importlib.import_module("numpy")
        if package == "torch" and hasattr(value, "detach"):
            # NumPy can't read a tensor that is on a device or records gradients.
            value = value.detach().cpu()
        elif package == "numpy" and type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
            raise self._refusal(
                Text("A {type}", type=type(value).__name__)
            )  # such as a masked array, whose mask would be lost
        tag = "scalar" if isinstance(value, numpy.generic) else "array"
        value = numpy.asarray(value)
        if value.dtype.names is not None:
            raise self._refusal(Text("A structured array"))
        # NumPy shows JAX's own types, such as bfloat16, as raw bytes ("V").
        if value.dtype.kind == "V":
            value = value.astype(self._wider(value.dtype.name))
        if value.dtype.hasobject:
            return {"list": [self.packed(item) for item in value.tolist()]}
        self._spend(value.nbytes)
        content = base64.b64encode(value.tobytes()).decode()
        return {tag: {"dtype": value.dtype.str, "shape": list(value.shape), "content": content}}

    def _wider(self, name: str) -> str:
        for beginning, wider in _WIDER:
            if name.startswith(beginning):
                return wider
        raise self._refusal(Text("An array of {type}", type=name))

    def _refusal(self, what: str) -> BadInput:
        return BadInput(
            Text("{what} cannot be copied from the node.", what=what),
            hint="Convert the value to numbers, strings, lists, dictionaries or plain arrays.",
        )

    def _text(self, content: bytes) -> str:
        self._spend(len(content))
        return base64.b64encode(content).decode()

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            text = Text("{name} is too large to copy: more than {size} MiB.", name=self._name, size=MOST_BYTES // 2**20)
            raise BadInput(text, hint="Save the value to a file on the node.")
