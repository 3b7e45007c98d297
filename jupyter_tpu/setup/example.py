"""The example notebook of the demo and of the trial of the emulated cloud."""

from __future__ import annotations

import importlib.util
import json
from importlib import resources
from typing import Any

from jupyter_core.utils import ensure_async

NOTEBOOK = "digits.ipynb"
# packages that the example imports
_NEEDED = ("jax", "sklearn")


def example_bytes() -> bytes:
    """Return the content of the example notebook's file."""
    return resources.files("jupyter_tpu").joinpath("notebook", "examples", NOTEBOOK).read_bytes()


async def put_example(contents: Any) -> None:
    """Save the example notebook in JupyterLab's root folder.

    Do nothing if a file with this name exists, or if a package that the notebook needs is missing.

    Args:
        contents: Jupyter's contents manager.
    """
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        return
    if not await ensure_async(contents.file_exists(NOTEBOOK)):
        content = json.loads(example_bytes())
        await ensure_async(contents.save({"type": "notebook", "format": "json", "content": content}, NOTEBOOK))
