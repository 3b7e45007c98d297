"""The page reference/packages.md: every package, what it is for, and its modules, from their docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jupyter_tpu"
_INTRODUCTION = """# Packages

This page lists the folders of `jupyter_tpu/`: the purpose of each folder, what it must not depend on, and its modules.
[architecture.md](../explanation/architecture.md) describes how they work together."""


def packages_page(generated: str) -> str:
    """The whole page; `generated` is the comment that says where it comes from."""
    folders = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
    return "\n\n".join([generated, _INTRODUCTION, *(_section(folder) for folder in folders)]) + "\n"


def _section(folder: Path) -> str:
    title = f"## `{folder.relative_to(PACKAGE.parent)}/`"
    rows = "\n".join(f"| `{name}` | {summary} |" for name, summary in _modules(folder))
    table = f"| module | what it is |\n|---|---|\n{rows}" if rows else ""
    return "\n\n".join(filter(None, [title, _docstring(folder / "__init__.py"), table]))


def _modules(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.py")):
        if not path.stem.startswith("_"):
            yield path.stem, " ".join(_docstring(path).split("\n\n")[0].split()).replace("|", "\\|")


def _docstring(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").replace("``", "`")
