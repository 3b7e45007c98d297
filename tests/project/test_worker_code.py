"""What runs on the worker can run there: an old Python, few packages."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jupyter_tpu

PACKAGE = Path(jupyter_tpu.__file__).parent
WORKER_PYTHON = (3, 10)  # Ubuntu 22.04, the system of most TPU VM images

FOLDERS = ("agent", "commands", "notebook", "wire")
MODULES = (
    "__init__",
    "accelerators",
    "autostop",
    "durations",
    "errors",
    "diagnostics",
    "frameworks",
    "metrics",
    "models",
    "provisioning",
    "tpu_files",
)
WORKER_FILES = sorted(
    [path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")]
    + [PACKAGE / f"{module}.py" for module in MODULES]
)

THIRD_PARTY = {"zmq", "psutil"}
"""What the agent's environment brings; a kernel's own libraries are reached only from inside functions."""


def test_worker_code_is_written_in_the_python_of_the_worker_and_loads_only_what_every_worker_has() -> None:
    allowed = {*sys.stdlib_module_names, *THIRD_PARTY, "jupyter_tpu"}
    for path in WORKER_FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=WORKER_PYTHON)
        assert set(imports_when_loaded(tree)) <= allowed, path


def imports_when_loaded(node: ast.AST) -> Iterator[str]:
    """Top-level names of the packages that a module imports as it is loaded, so not inside its functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
            yield child.module.partition(".")[0]
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not is_type_checking(child):
            yield from imports_when_loaded(child)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def modules_loaded_by(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", script], text=True).split())


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"google", "grpc", "asyncssh", "tornado", "zmq", "jupyter_client", "asyncio", "sqlite3"}
    assert not modules_loaded_by("import jupyter_tpu") & heavy


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("jupyter_tpu.errors", {"asyncio", "json"}),
        ("jupyter_tpu.models", {"asyncio", "zmq"}),
        ("jupyter_tpu.notebook", {"IPython", "jax", "asyncio"}),
        ("jupyter_tpu.notebook.tpu_init.jax_start", {"jax", "numpy", "IPython"}),
        ("jupyter_tpu.notebook.widgets", {"anywidget", "ipywidgets", "traitlets", "IPython"}),
        ("jupyter_tpu.cli", {"google", "grpc", "asyncssh", "jupyter_tpu.emulator", "jupyter_tpu.server"}),
    ],
)
def test_each_part_loads_only_what_it_needs(module, unneeded):
    assert not modules_loaded_by(f"import {module}") & unneeded
