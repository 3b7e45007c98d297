"""Which versions of JAX and its libraries are installed, and whether they belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

LIBRARIES = ("jax", "jaxlib", "libtpu")
_LIBTPU_PIN = re.compile(r"libtpu\s*==\s*([0-9.]+?)(\.\*)?\s*(;|$)")


def installed_versions() -> dict[str, str]:
    """The installed version of each library; empty where it is not installed."""
    return {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def jax_requirements() -> list[str]:
    """What the installed JAX asks for; empty where it does not say, as in a checkout of JAX."""
    try:
        return metadata.requires("jax") or []
    except metadata.PackageNotFoundError:
        return []


def libtpu_mismatch(versions: Mapping[str, str], requirements: Iterable[str]) -> str:
    """What to tell when libtpu is not the version that this JAX was made for; empty when all is well or nothing known.

    >>> libtpu_mismatch({"jax": "0.10.2", "libtpu": "0.0.51"}, ["libtpu==0.0.42.*; extra == 'tpu'"])
    'libtpu 0.0.51 is installed, but jax 0.10.2 is made for 0.0.42.'
    """
    wanted = next((match[1] for each in requirements if (match := _LIBTPU_PIN.match(each))), "")
    found = versions["libtpu"]
    if not wanted or not found or f"{found}.".startswith(f"{wanted}."):
        return ""
    return f"libtpu {found} is installed, but jax {versions['jax']} is made for {wanted}."
