"""A notebook runs on a node by its kernelspec's name alone."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

if TYPE_CHECKING:
    from terminal import Terminal

pytestmark = pytest.mark.timeout(600)

DIGITS = files("jupyter_tpu") / "notebook" / "examples" / "digits.ipynb"


def outputs_text(notebook: Path) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return json.dumps([cell.get("outputs", []) for cell in cells])


def assert_trained(notebook: Path) -> None:
    text = outputs_text(notebook)
    assert "image/png" in text, "no loss curve was drawn"
    assert "emulated" in text, "an emulated node must say so"
    assert "accuracy" in text


@pytest.mark.nightly
def test_nbconvert_executes_digits_on_the_node(terminal: Terminal, kernel_name: str) -> None:
    shutil.copy(str(DIGITS), terminal.home / "digits.ipynb")

    terminal.run(
        *[sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "digits.ipynb", "--output", "done.ipynb"],
        f"--ExecutePreprocessor.kernel_name={kernel_name}",
    )

    assert_trained(terminal.home / "done.ipynb")


NBCLIENT = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, kernel_name=sys.argv[2], timeout=200).execute()
nbformat.write(notebook, sys.argv[3])
"""


@pytest.mark.nightly
def test_nbclient_executes_digits_on_the_node(terminal: Terminal, kernel_name: str) -> None:
    terminal.run(sys.executable, "-c", NBCLIENT, str(DIGITS), kernel_name, "client.ipynb")

    assert_trained(terminal.home / "client.ipynb")


def without_provisioner(terminal: Terminal, kernel_name: str) -> str:
    """A copy of the kernelspec as a front end sees it that knows no provisioners."""
    kernels = Path(terminal.environment["JUPYTER_DATA_DIR"]) / "kernels"
    copy = kernels / f"{kernel_name}-argv"
    if not copy.exists():
        shutil.copytree(kernels / kernel_name, copy)
        spec = json.loads((copy / "kernel.json").read_text())
        del spec["metadata"]["kernel_provisioner"]
        (copy / "kernel.json").write_text(json.dumps(spec))
    return copy.name


@pytest.mark.nightly
def test_the_argv_launcher_executes_digits_where_provisioners_are_ignored(terminal: Terminal, kernel_name: str) -> None:
    terminal.run(sys.executable, "-c", NBCLIENT, str(DIGITS), without_provisioner(terminal, kernel_name), "argv.ipynb")

    assert_trained(terminal.home / "argv.ipynb")
