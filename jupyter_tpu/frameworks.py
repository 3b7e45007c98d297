"""The compatibility matrix: framework versions with their libtpu, Python and runtime versions.

This module is pure and runs on Python 3.10. Start with `newest` and `release_of`; to add a version, add a row to
`RELEASES`. Pins come from the frameworks' own package metadata, and the bounds on Python from their published wheels,
all checked on 2026-11-22. libtpu is loaded once per process, and no libtpu version supports two of these frameworks, so
each framework has a separate environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from jupyter_tpu.accelerators import catalogue, find_accelerator
from jupyter_tpu.errors import BadInput, Text

FRAMEWORKS = ("jax", "torch_xla", "torch_tpu", "tf")

TITLES = {"jax": "JAX", "torch_xla": "PyTorch/XLA", "torch_tpu": "TorchTPU", "tf": "TensorFlow"}
"""Framework names for display."""

Python: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of a framework.

    Attributes:
        framework: one of `FRAMEWORKS`.
        version: the full version, such as ``0.10.2``.
        libtpu: the versions of libtpu for which it was built, as a PEP 440 specifier.
        python_min, python_max: the oldest and newest supported Python; None means no known upper bound.
        requires: the pip requirements that install it; empty if one of its packages is in no package index.
    """

    framework: str
    version: str
    libtpu: str
    python_min: Python
    python_max: Python | None = None
    requires: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """The minor version: ``0.10`` for ``0.10.2``."""
        return _minor_of(self.version)

    @property
    def title(self) -> str:
        """Name and minor version for display: ``JAX 0.10``."""
        return f"{TITLES[self.framework]} {self.minor}"

    def fits(self, python: Python) -> bool:
        """Return whether the release supports this Python version, according to the known minimum and maximum."""
        return self.python_min <= python and (self.python_max is None or python <= self.python_max)


def _jax(version: str, libtpu: str, python_min: Python, *more: str) -> Release:
    requires = more or (f"jax[tpu]=={version}",)
    return Release(framework="jax", version=version, libtpu=libtpu, python_min=python_min, requires=requires)


def _torch_xla(version: str, libtpu: str, python_max: Python, *more: str) -> Release:
    torch = f"torch=={_minor_of(version)}.0"
    return Release(
        framework="torch_xla",
        version=version,
        libtpu=libtpu,
        python_min=(3, 10),
        python_max=python_max,
        requires=(torch, *(more or (f"torch_xla[tpu]=={version}",))),
    )


def _minor_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _dotted(python: Python) -> str:
    return ".".join(map(str, python))


RELEASES: tuple[Release, ...] = (
    # This [tpu] extra, like torch_xla 2.6.0's below, also requires a nightly libtpu that is no longer in the index.
    _jax("0.4.35", "==0.0.2", (3, 10), "jax==0.4.35", "libtpu==0.0.2"),
    _jax("0.5.3", "==0.0.11.*", (3, 10)),
    _jax("0.6.2", "==0.0.17.*", (3, 10)),
    _jax("0.7.2", "==0.0.23", (3, 11)),
    _jax("0.8.2", "==0.0.32.*", (3, 11)),
    _jax("0.9.2", "==0.0.37.*", (3, 11)),
    _jax("0.10.2", "==0.0.42.*", (3, 11)),
    _torch_xla("2.6.0", "==0.0.7.1", (3, 11), "torch_xla==2.6.0", "libtpu==0.0.7.1"),
    _torch_xla("2.7.0", "==0.0.11.1", (3, 11)),
    _torch_xla("2.8.1", "==0.0.17", (3, 13)),
    _torch_xla("2.9.0", "==0.0.21", (3, 13)),
    Release(
        framework="torch_tpu",
        version="0.2.0",
        libtpu=">=0.0.50",
        python_min=(3, 11),
        requires=("torch>=2.11,<2.16", "torch_tpu==0.2.0"),
    ),
    # This libtpu is in no package index. It is part of the runtime version tpu-vm-tf-2.18.0.
    Release(framework="tf", version="2.18.0", libtpu="==2.18.0", python_min=(3, 9), python_max=(3, 12)),
    Release(
        framework="tf",
        version="2.20.0",
        libtpu="~=0.0.14",
        python_min=(3, 9),
        python_max=(3, 13),
        requires=("tensorflow-tpu==2.20.0",),
    ),
)
"""All known releases, oldest first within each framework."""


def newest(framework: str, python: Python | None = None) -> Release:
    """Return the newest release, or the newest that supports the given Python version.

    Raises:
        BadInput: there is no such framework, or none of its releases fits this Python.
    """
    known = [each for each in RELEASES if each.framework == framework]
    if not known:
        raise BadInput(
            Text("{framework} is not a framework for TPUs.", framework=repr(framework[:40])),
            hint=Text("Use one of: {frameworks}.", frameworks=", ".join(FRAMEWORKS)),
        )
    fitting = [each for each in known if each.requires and (python is None or each.fits(python))]
    if not fitting:
        raise BadInput(
            Text(
                "No release of {framework} is known to support Python {python}.",
                framework=TITLES[framework],
                python=_dotted(python or (0, 0)),
            ),
            hint=Text("{release} needs Python {pythons}.", release=known[-1].title, pythons=python_range(known[-1])),
        )
    return fitting[-1]


def release_of(framework: str, version: str) -> Release | None:
    """Return the release with the same minor version (``0.10.1`` finds ``0.10.2``), or None if there is none."""
    found = (each for each in RELEASES if each.framework == framework and each.minor == _minor_of(version))
    return next(found, None)


def python_range(release: Release) -> str:
    """Format the supported Python versions for display: ``3.10 to 3.13``, or ``3.11 or newer``."""
    if release.python_max is None:
        return Text("{version} or newer", version=_dotted(release.python_min))
    return Text("{oldest} to {newest}", oldest=_dotted(release.python_min), newest=_dotted(release.python_max))


def runtime_version_fits(accelerator_type: str, runtime_version: str, framework: str) -> str:
    """Return why a framework can't work with this accelerator type and runtime version, or "" if no reason is known."""
    kind = find_accelerator(accelerator_type)
    if kind is None:
        return ""
    # Only TensorFlow ships different VM images for single VMs and for slices.
    return _not_for(kind.generation, runtime_version) or (
        _no_image_for_slices(accelerator_type, kind.workers, runtime_version) if framework == "tf" else ""
    )


def _not_for(generation: str, runtime_version: str) -> str:
    """Return why this runtime version does not fit the TPU generation, or "" if it fits or is unknown."""
    images: dict[str, list[str]] = {name: row["runtime"] for name, row in catalogue()["generations"].items()}
    meant_for = [name for name, own in images.items() if runtime_version in own]
    if not meant_for or generation in meant_for:
        return ""
    # A name with brackets is a pattern for a family of images and can't be requested.
    own = ", ".join(name for name in images[generation] if "[" not in name)
    return Text(
        "The runtime version {version} is for TPU {generations}. For TPU {generation}, use one of these: {own}.",
        version=runtime_version,
        generations=", ".join(meant_for),
        generation=generation,
        own=own,
    )


def _no_image_for_slices(accelerator_type: str, workers: int, runtime_version: str) -> str:
    is_for_slices = re.fullmatch(r"tpu-vm-tf-[0-9.]+-pod(-[a-z0-9-]+)?", runtime_version)
    if workers == 1 or is_for_slices:
        return ""
    return Text(
        "{type} has {count} workers. TensorFlow runs on several workers only with a runtime version "
        "tpu-vm-tf-…-pod; this node has {version}.",
        type=accelerator_type,
        count=workers,
        version=runtime_version or Text("an unknown version"),
    )
