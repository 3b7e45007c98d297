"""Packs variables of a kernel on a node as JSON, for a kernel elsewhere: values only, nothing that could run there."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.errors import BadInput

MOST_BYTES = 16 * 1024 * 1024
_PLAIN = (type(None), bool, int, float, str)
_LISTS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}


def pack(name: str, namespace: Mapping[str, Any]) -> str:
    """The variable `name` as JSON text; arrays of JAX and tensors of PyTorch become arrays of NumPy.

    Raises:
        BadInput: there is no such variable, it holds something that cannot travel, or it is too large.
    """
    if name not in namespace:
        raise BadInput(f"There is no variable {name!r} on the node.", hint="Set it in the cell.")
    try:
        text = json.dumps(packed(namespace[name]))
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply, or holds itself.") from None
    if len(text) > MOST_BYTES:
        sizes = f"{len(text) / 2**20:.0f} MiB of at most {MOST_BYTES // 2**20}"
        raise BadInput(f"{name} is too large to come back ({sizes}).", hint="Save it to a file.")
    return text


def packed(value: Any) -> Any:
    """What `json.dumps` takes; `jupyter_tpu.local.variables` knows the tags.

    Raises:
        BadInput: it cannot travel.
    """
    if type(value) in _PLAIN:
        return value
    if type(value) is bytes:
        return {"bytes": _text(value)}
    if type(value) in _LISTS:
        return {_LISTS[type(value)]: [packed(item) for item in value]}
    if type(value) is dict:
        return {"dict": [[packed(key), packed(item)] for key, item in value.items()]}
    return _array(value)


def _array(value: Any) -> dict[str, Any]:
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of PyTorch
        value = value.detach().cpu()
    if not hasattr(value, "__array__"):
        raise BadInput(
            f"A {type(value).__name__} cannot come back from the node.",
            hint="Numbers, texts, lists, dictionaries and arrays can: turn it into those.",
        )
    numpy = importlib.import_module("numpy")
    array = numpy.asarray(value)
    if array.dtype.kind == "V":  # bfloat16 and its like, which NumPy does not know; float32 holds each of their values
        array = array.astype(numpy.float32)
    if array.dtype.hasobject:
        return {"list": [packed(item) for item in array.tolist()]}
    content = _text(numpy.ascontiguousarray(array).tobytes())
    return {"array": {"dtype": array.dtype.str, "shape": list(array.shape), "content": content}}


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
