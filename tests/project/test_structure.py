"""A stranger finds the file for a change: small folders, and packages that say what they are for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jupyter_tpu"
# what runs on an emulated worker: its folder must be one that other frameworks' plug-ins can share
_NAMESPACES = {"jax_plugins"}
_FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py") if path.parent.name not in _NAMESPACES})
_MOST_MODULES = 20


def test_a_folder_holds_no_more_modules_than_one_reads_at_a_glance() -> None:
    counts = {folder: len([path for path in folder.glob("*.py") if path.stem != "__init__"]) for folder in _FOLDERS}
    assert {folder: count for folder, count in counts.items() if count > _MOST_MODULES} == {}


def test_a_package_says_what_it_is_for() -> None:
    sources = {folder: (folder / "__init__.py").read_text(encoding="utf-8") for folder in _FOLDERS}
    assert [folder for folder, source in sources.items() if not ast.get_docstring(ast.parse(source))] == []


def test_code_on_a_worker_reads_the_wall_clock_in_one_place() -> None:
    """The emulator can make only that clock wrong, and a duration must not come from a clock that can be set."""
    by_file_times = {PACKAGE / "agent" / "environments" / "files.py"}  # it compares the times of files with each other
    sources = {
        path: path.read_text(encoding="utf-8")
        for part in ("agent", "notebook")
        for path in (PACKAGE / part).rglob("*.py")
    }
    found = [path for path, source in sources.items() if re.search(r"\btime\.time(_ns)?\b|datetime\.now", source)]
    assert set(found) <= by_file_times


def test_everything_runs_from_a_checkout_that_was_never_built() -> None:
    """The build writes `_version`, and the package has another version without it."""
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.stem != "_version"}
    assert [path for path, source in sources.items() if "jupyter_tpu._version" in source] == [PACKAGE / "__init__.py"]
