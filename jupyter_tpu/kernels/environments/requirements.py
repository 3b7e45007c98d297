"""What the folder of a notebook says it requires, in the files that people keep for that."""

from __future__ import annotations

import io
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_tpu.agent.environments.request import LONGEST_LINE, MOST_LINES

_REQUIREMENTS = "requirements.txt"
_PROJECT = "pyproject.toml"
_MOST_BYTES = 256 * 1024
_DEEPEST = 5
_INCLUDE = re.compile(r"""(?:-r|--requirement)[\s=]+(["']?)(.+)\1""")
_COMMENT = re.compile(r"(^|\s)#.*$")
_USER_OF_ADDRESS = re.compile(r"//[^/\s]*@")
_WAY_OUT = "name them in a requirements.txt beside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderNeeds:
    """Requirements of a notebook's folder.

    Attributes:
        source: the name of the file; empty if there is none.
        lines: PEP 508 requirements.
        left_out: lines that mean nothing on a worker, such as paths of this machine and options of pip, and whose
            hashes are not checked; for people, so users and passwords in addresses are not shown.
        fault: why the file does not say what is required; empty if it does.
    """

    source: str = ""
    lines: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    fault: str = ""


def folder_needs(folder: Path | None) -> FolderNeeds:
    """Those of ``requirements.txt``, or else of ``pyproject.toml``, in this very folder. Blocks on the disk."""
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
        raise ValueError(f"it names {len(lines)} requirements, and a worker takes at most {MOST_LINES}")
    longest = max(lines, key=len, default="")
    if len(longest) > LONGEST_LINE:
        line = f"the line {without_user(longest)[:40]!r}… has {len(longest)} characters"
        raise ValueError(f"{line}, and a worker takes at most {LONGEST_LINE}")


def _lines_of(path: Path) -> Iterator[str]:
    return _lines_with_included(path, set(), 0)


def _lines_with_included(path: Path, seen: set[tuple[int, int]], depth: int) -> Iterator[str]:
    status = path.stat()
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
        _refuse_what_is_elsewhere(data, project)
    found = project.get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(line, str) and line.strip() for line in found):
        raise ValueError('project.dependencies must be a list of requirements, such as ["numpy>=2"]')
    yield from (line.strip() for line in found)


def _toml_of(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text_of(path))
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error


def _refuse_what_is_elsewhere(data: Mapping[str, Any], project: Mapping[str, Any]) -> None:
    if "dependencies" in project.get("dynamic", []):
        raise ValueError(f"its dependencies are dynamic, known only once the project is built; {_WAY_OUT}")
    if set(_table(data, "tool", "poetry", "dependencies")) - {"python"}:
        raise ValueError(f"its dependencies are in [tool.poetry.dependencies], in Poetry's own words; {_WAY_OUT}")


def _table(data: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The table of that name; an empty one where there is none."""
    found: Any = data
    for name in names:
        found = found.get(name, {})
        if not isinstance(found, dict):
            raise ValueError(f"{name} is no table")
    return dict(found)


def _text_of(path: Path) -> str:
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path.name} is no regular file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path.name} is larger than {_MOST_BYTES // 1024} KiB")
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig").read()


def _open_at_once(path: str, flags: int) -> int:
    """Of a pipe too, which would wait for somebody to write into it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _is_requirement(line: str) -> bool:
    """Whether a package index, or an address, can serve it: no option, and no path of this machine."""
    name, _, address = line.partition("@")
    is_path = "/" in name or "\\" in name or (not address and line.endswith((".whl", ".tar.gz", ".zip")))
    is_local = is_path or address.strip().startswith(("file:", ".", "/"))
    return line[:1].isalnum() and line.isprintable() and not is_local


def without_user(line: str) -> str:
    """A requirement as it may be shown: whoever signs in at its address is left out."""
    return _USER_OF_ADDRESS.sub("//…@", line)
