"""The installed versions of a framework and its libraries, and their compatibility."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

from jupyter_tpu.errors import Text
from jupyter_tpu.frameworks import TITLES, release_of

LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "jax": ("jax", "jaxlib", "libtpu"),
    "torch_xla": ("torch_xla", "torch", "libtpu"),
    "torch_tpu": ("torch_tpu", "torch", "libtpu"),
    "tf": ("tensorflow", "keras", "libtpu"),
}
"""The libraries of each framework, starting with the framework itself."""

_SAME: Mapping[str, tuple[str, ...]] = {"tensorflow": ("tensorflow-tpu", "tensorflow", "tensorflow-cpu")}
"""Packages that provide a library under a different name."""

# A requirement in a package's metadata, such as “libtpu==0.0.42.*; extra == 'tpu'”, and one clause of its version
# specifier.
_LIBTPU = re.compile(r"libtpu\s*\(?\s*((?:[=~<>!]=?=?)\s*[0-9][^;)]*)")
_CLAUSE = re.compile(r"(==|~=|>=|<=|!=|>|<)\s*([0-9]+(?:\.[0-9]+)*)(\.\*)?")


def installed_versions(framework: str) -> dict[str, str]:
    """Return the version of each library of a framework; the version is empty if the library is not installed."""
    return {name: _version(name) for name in LIBRARIES[framework]}


def _version(name: str) -> str:
    for package in _SAME.get(name, (name,)):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return ""


def requirements_of(framework: str) -> list[str]:
    """Return the requirements in the metadata of the installed framework, or [] if there are none."""
    library = LIBRARIES[framework][0]
    for package in _SAME.get(library, (library,)):
        try:
            return metadata.requires(package) or []
        except metadata.PackageNotFoundError:
            continue
    return []


def libtpu_mismatch(framework: str, versions: Mapping[str, str], requirements: Iterable[str]) -> str:
    """Return a warning if this framework was not built for the installed version of libtpu, or else "".

    The package's own requirement takes precedence over the table in `frameworks`. There is no warning if neither of
    them specifies a version or if libtpu is not installed (a framework that needs libtpu would not have started).

    >>> libtpu_mismatch("jax", {"jax": "0.10.2", "libtpu": "0.0.51"}, ["libtpu==0.0.42.*; extra == 'tpu'"])
    'libtpu 0.0.51 is installed, but JAX 0.10.2 needs ==0.0.42.*.'
    """
    own = versions[LIBRARIES[framework][0]]
    found = versions["libtpu"]
    asked = next((match[1].strip() for each in requirements if (match := _LIBTPU.match(each))), "")
    release = release_of(framework, own)
    wanted = asked or (release.libtpu if release else "")
    if not wanted or not found or is_within(found, wanted):
        return ""
    return Text(
        "libtpu {found} is installed, but {framework} {version} needs {wanted}.",
        found=found,
        framework=TITLES[framework],
        version=own,
        wanted=wanted,
    )


def is_within(version: str, specifier: str) -> bool:
    """Return whether a version meets a PEP 440 specifier; compares only plain numbers and ignores unknown clauses.

    `packaging` may not be installed in the kernel's Python.

    >>> is_within("0.0.42.1", "==0.0.42.*"), is_within("0.0.17", "~=0.0.14"), is_within("0.0.21", ">=0.0.50")
    (True, True, False)
    """
    numbers = _numbers(version)
    return all(_meets(numbers, match) for part in specifier.split(",") if (match := _CLAUSE.match(part.strip())))


def _meets(version: tuple[int, ...], clause: re.Match[str]) -> bool:
    sign, wanted, is_prefix = clause[1], _numbers(clause[2]), bool(clause[3])
    if sign in ("==", "!="):
        same = version[: len(wanted)] == wanted if is_prefix else _padded(version) == _padded(wanted)
        return same == (sign == "==")
    if sign == "~=":
        return _padded(version) >= _padded(wanted) and version[: len(wanted) - 1] == wanted[:-1]
    left, right = _padded(version), _padded(wanted)
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[sign]


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _padded(numbers: tuple[int, ...]) -> tuple[int, ...]:
    # According to PEP 440, 1.0 equals 1.0.0. The versions compared here have far fewer than eight numbers.
    return numbers + (0,) * (8 - len(numbers))
