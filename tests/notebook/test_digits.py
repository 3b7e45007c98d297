"""The tutorial that the wheel ships does what it says."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TUTORIAL = Path(str(resources.files("jupyter_tpu"))) / "notebook/examples/digits.ipynb"


@pytest.mark.nightly  # tests/ui/test_first_notebook.py trains it on a node, too
def test_the_tutorial_learns_the_digits_on_eight_devices(monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_EMULATED", "1")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-8")
    notebook = nbformat.read(TUTORIAL, as_version=4)
    extension = "--IPKernelApp.extra_extensions=jupyter_tpu"
    NotebookClient(notebook, timeout=240, kernel_name="python3", extra_arguments=[extension]).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "on 8 devices" in printed
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2


def test_the_tutorial_is_kept_without_outputs():
    notebook = nbformat.read(TUTORIAL, as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
