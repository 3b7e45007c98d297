"""Which files are not synced: defaults, then the patterns of each ``.gitignore``, then those of ``.tpuignore``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pathspec.patterns.gitignore.basic import GitIgnoreBasicPattern

from jupyter_tpu.wire.file_messages import OWN_FOLDER

Rule = tuple[bool, str]

_MADE_AGAIN = (".git/", "__pycache__/", "*.pyc", ".ipynb_checkpoints/", ".venv/", "venv/", "node_modules/", ".*_cache/")
_OF_PROGRAMS = (".DS_Store", "*.swp", "~$*")
_CHECKPOINTS = ("checkpoints/", "*.ckpt", "*.orbax*", "*.safetensors", "wandb/", "tb_logs/")
_SECRETS = (".env", ".netrc", "*.pem", "id_rsa*", "id_ed25519*", "*credentials*.json")
DEFAULTS = (*_MADE_AGAIN, *_OF_PROGRAMS, *_CHECKPOINTS, *_SECRETS)
"""What is ignored in every folder, in the grammar of ``.gitignore``."""

MOST_FILE_BYTES = 50_000_000
"""Larger files are data or checkpoints, which belong into a bucket."""

_LARGEST_RULE_FILE = 256 * 1024
_MOST_FOLDERS = 20_000


def ignore_rules(folder: Path) -> list[Rule]:
    """Return the rules of a folder: whether a match is ignored, and a regular expression; the last match decides."""
    lines = [*DEFAULTS, *_git_ignored(folder), *_lines(folder / ".tpuignore")]
    return [rule for line in lines for rule in _rules(line)]


def _rules(line: str) -> Sequence[Rule]:
    with suppress(ValueError):  # git ignores such a line too
        regex, is_ignored = GitIgnoreBasicPattern.pattern_to_regex(line)
        if regex is not None and is_ignored is not None:
            return [(is_ignored, regex)]
    return ()


def _git_ignored(folder: Path) -> Iterator[str]:
    """Yield the patterns of all files named ``.gitignore``, those of inner folders as patterns of the outermost."""
    skipped = {OWN_FOLDER, *(name.rstrip("/") for name in DEFAULTS if name.endswith("/") and "*" not in name)}
    for number, (path, folders, files) in enumerate(os.walk(folder)):
        if number > _MOST_FOLDERS:
            return
        folders[:] = sorted(name for name in folders if name not in skipped)
        if ".gitignore" in files:
            inside = Path(path).relative_to(folder).as_posix()
            for line in _lines(Path(path) / ".gitignore"):
                yield line if inside == "." else _in_folder(inside, line)


def _in_folder(folder: str, line: str) -> str:
    """Return the pattern for the outermost folder that means what `line` means in an inner one."""
    sign, pattern = ("!", line[1:]) if line.startswith("!") else ("", line)
    for letter in "\\*?[":
        folder = folder.replace(letter, f"\\{letter}")
    # a pattern with a slash that is not at its end is relative to its folder, any other one matches at any depth
    is_relative = "/" in pattern.rstrip("/")
    return f"{sign}/{folder}/{'' if is_relative else '**/'}{pattern.lstrip('/')}"


def _lines(path: Path) -> list[str]:
    try:
        if path.is_symlink():
            return []
        with path.open("rb") as file:
            text = file.read(_LARGEST_RULE_FILE).decode("utf-8", "surrogateescape")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
