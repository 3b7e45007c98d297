"""What is sent to a worker."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jupyter_tpu.agent.archive import agent_archive, bootstrap_source, relay_source, sources_digest


def names() -> list[str]:
    return zipfile.ZipFile(io.BytesIO(agent_archive().content)).namelist()


def test_the_same_package_gives_the_same_bytes() -> None:
    in_another_process = subprocess.run(
        [sys.executable, "-c", "from jupyter_tpu.agent.archive import agent_archive; print(agent_archive().digest)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert in_another_process.stdout.strip() == agent_archive().digest


def test_its_sources_have_a_digest_that_the_next_process_finds_again() -> None:
    in_another_process = subprocess.run(
        [sys.executable, "-c", "from jupyter_tpu.agent.archive import sources_digest; print(sources_digest())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert in_another_process.stdout.strip() == sources_digest()


def test_it_holds_what_a_worker_needs_and_nothing_of_the_laptop() -> None:
    parts = {name.split("/")[1] for name in names() if name != "__main__.py"}
    assert {"__init__.py", "errors.py", "models.py", "wire", "agent", "notebook"} <= parts
    assert not parts & {"cloud", "ssh", "server", "cli", "emulator", "fleet.py", "link", "kernels", "journal"}
    assert not [name for name in names() if "__pycache__" in name or name.endswith(".pyc")]


def test_its_code_is_valid_for_the_workers_python() -> None:
    archive = zipfile.ZipFile(io.BytesIO(agent_archive().content))
    for name in archive.namelist():
        if name.endswith(".py"):
            ast.parse(archive.read(name), name, feature_version=(3, 10))


@pytest.mark.parametrize("source", [bootstrap_source, relay_source])
def test_what_runs_before_the_archive_needs_only_the_standard_library(source: object) -> None:
    tree = ast.parse(source())  # type: ignore[operator]
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names | {"jupyter_tpu"}


def test_the_unpacked_archive_imports_without_the_installed_package(tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(agent_archive().content)).extractall(tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import jupyter_tpu.agent.main as m; print(m.__file__)"
    done = subprocess.run([sys.executable, "-I", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
