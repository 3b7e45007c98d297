"""Read the requirements of a notebook's folder from its ``requirements.txt`` or ``pyproject.toml``."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.environments.request import LONGEST_LINE, MOST_LINES

_REQUIREMENTS = "requirements.txt"
_PROJECT = "pyproject.toml"
# Maximum size of a file and depth of inclusion. Both bound the time and memory for files that a user may have
# downloaded with a notebook.
_MOST_BYTES = 256 * 1024
_DEEPEST = 5
_INCLUDE = re.compile(r"""(?:-r|--requirement)[\s=]+(["']?)(.+)\1""")
_COMMENT = re.compile(r"(^|\s)#.*$")
_USER_OF_ADDRESS = re.compile(r"//[^/\s]*@")
_HINT = "list them in a requirements.txt beside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderNeeds:
    """The requirements of a notebook's folder.

    Attributes:
        source: name of the file with the requirements; empty if there is no such file.
        lines: PEP 508 requirements.
        left_out: lines that cannot be used on a worker, such as local paths and pip options, and a note about unchecked
            hashes. The lines are displayed, so credentials in URLs are removed.
        fault: why the file cannot be used; empty if it is valid.
    """

    source: str = ""
    lines: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    fault: str = ""


def folder_needs(folder: Path | None) -> FolderNeeds:
    """Read ``requirements.txt`` or, if missing, ``pyproject.toml`` in this folder. Blocks on the disk.

    Args:
        folder: the notebook's folder; None for no requirements.
    """
    if folder is None:
        return FolderNeeds()
    for name, read in ((_REQUIREMENTS, _lines_of), (_PROJECT, _dependencies)):
        if (folder / name).is_file():
            return _read(folder / name, read)
    return FolderNeeds()


def _read(path: Path, read: Callable[[Path], Iterator[str]]) -> FolderNeeds:
    try:
        return _needs(path.name, read(path))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        return FolderNeeds(source=path.name, fault=str(error))


def _needs(source: str, found: Iterable[str]) -> FolderNeeds:
    hashes: dict[str, str] = {}
    for line, _, some in (line.expandtabs(1).partition(" --hash") for line in found):
        hashes[line.strip()] = hashes.get(line.strip(), "") + some
    lines = tuple(filter(_is_requirement, hashes))
    _refuse_too_much(lines)
    left_out = [line for line in hashes if not _is_requirement(line)]
    if unchecked := ", ".join(line for line in lines if hashes[line]):
        left_out.append(f"--hash of {unchecked} (installed there unchecked)")
    return FolderNeeds(source=source, lines=lines, left_out=tuple(map(without_user, left_out)))


def _refuse_too_much(lines: tuple[str, ...]) -> None:
    if len(lines) > MOST_LINES:
        raise ValueError(f"it lists {len(lines)} requirements; the limit is {MOST_LINES}")
    longest = max(lines, key=len, default="")
    if len(longest) > LONGEST_LINE:
        line = f"the line {without_user(longest)[:40]!r}… has {len(longest)} characters"
        raise ValueError(f"{line}; the limit is {LONGEST_LINE}")


def _lines_of(path: Path) -> Iterator[str]:
    return _lines_with_included(path, set(), 0)


def _lines_with_included(path: Path, seen: set[tuple[int, int]], depth: int) -> Iterator[str]:
    status = path.stat()
    # Compare inodes instead of names, and read each file once: files that include each other 20 times would be read
    # 20^5 times.
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    text = _text_of(path).replace("\\\n", " ")
    for line in (_COMMENT.sub("", line).strip() for line in text.splitlines()):
        included = _INCLUDE.fullmatch(line)
        if included and depth < _DEEPEST and "://" not in line:
            yield from _lines_with_included(path.parent / included[2].strip(), seen, depth + 1)
        elif line:
            yield line


def _dependencies(path: Path) -> Iterator[str]:
    data = _toml_of(path)
    project = _table(data, "project")
    if "dependencies" not in project:
        _refuse_other_sources(data, project)
    found = project.get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(line, str) and line.strip() for line in found):
        raise ValueError('project.dependencies must be a list of requirements, such as ["numpy>=2"]')
    yield from (line.strip() for line in found)


def _toml_of(path: Path) -> Mapping[str, Any]:
    import tomllib  # only for folders with a pyproject.toml

    try:
        return tomllib.loads(_text_of(path))
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error


def _refuse_other_sources(data: Mapping[str, Any], project: Mapping[str, Any]) -> None:
    if "dependencies" in project.get("dynamic", []):
        raise ValueError(f"its dependencies are dynamic and known only once the project is built; {_HINT}")
    if set(_table(data, "tool", "poetry", "dependencies")) - {"python"}:
        raise ValueError(f"its dependencies are in [tool.poetry.dependencies], in Poetry's own format; {_HINT}")


def _table(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the TOML table with that name, or an empty table if it doesn't exist."""
    found: Any = data
    for name in names:
        found = found.get(name, {})
        if not isinstance(found, dict):
            raise ValueError(f"{name} is not a table")
    return dict(found)


def _text_of(path: Path) -> str:
    with open(path, "rb", opener=_open_nonblocking) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path.name} is larger than {_MOST_BYTES // 1024} KiB")
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig").read()


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file without blocking, because a named pipe would block until a writer opens it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _is_requirement(line: str) -> bool:
    """Return whether the line requires a package from an index or a URL; False for an option or a local path."""
    name, _, address = line.partition("@")
    is_path = "/" in name or "\\" in name or (not address and line.endswith((".whl", ".tar.gz", ".zip")))
    is_local = is_path or address.strip().startswith(("file:", ".", "/"))
    return line[:1].isalnum() and line.isprintable() and not is_local


def without_user(line: str) -> str:
    """Return a requirement for display, without the credentials in its URL."""
    return _USER_OF_ADDRESS.sub("//…@", line)
