"""A package index in a folder: frameworks with nothing in them, so that environments are made in a moment, offline."""

from __future__ import annotations

import ensurepip
import hashlib
import shutil
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

JAX = "0.10.2+tiny"
"""The matrix's version, and plainly none of a real index."""


def write_wheel(folder: Path, name: str, version: str, metadata: Sequence[str] = ()) -> None:
    """A wheel with one module, whose `VERSION` is the version."""
    _write(folder, name, version, {f"{name}.py": f"VERSION = {version!r}\n"}, metadata)


def write_door(folder: Path, name: str, version: str = "99.0", metadata: Sequence[str] = ()) -> None:
    """A wheel that brings a package, and all that it needs, by showing those of the tests' own environment."""
    _write(folder, name, version, {f"{name}-of-tests.pth": sysconfig.get_path("purelib") + "\n"}, metadata)


def write_uv(folder: Path) -> None:
    """A wheel that brings the uv of the tests' own environment."""
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    script = f'#!/bin/sh\nexec {uv if uv.is_file() else shutil.which("uv")} "$@"\n'
    _write(folder, "uv", "99.0", {"uv-99.0.data/scripts/uv": script}, ())


def _write(folder: Path, name: str, version: str, content: Mapping[str, str], metadata: Sequence[str]) -> None:
    info = f"{name}-{version}.dist-info"
    files = {
        **content,
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *metadata, ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in {**files, f"{info}/RECORD": record}.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            wheel.writestr(entry, content)


def write_index(folder: Path) -> dict[str, str]:
    """JAX with its libtpu, a few packages that users might add, what kernels need; uv's variables for all that."""
    folder.mkdir()
    for name in ("pyzmq", "psutil", "ipywidgets", "anywidget", "tqdm", "decorator"):
        write_door(folder, name)
    # the lock installs decorator with ipykernel, whose IPython needs it, so it is sent with ipykernel too
    write_door(folder, "ipykernel", metadata=["Requires-Dist: decorator"])
    write_door(folder, "ipyparallel", "9.2.99")
    write_uv(folder)
    for wheel in (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"):
        shutil.copy(wheel, folder)
    needs_libtpu = ("Provides-Extra: tpu", "Requires-Dist: libtpu==0.0.42.* ; extra == 'tpu'")
    write_wheel(folder, "jax", JAX, needs_libtpu)
    write_wheel(folder, "libtpu", "0.0.42.99")
    write_wheel(folder, "tiny_optimiser", "1.0")
    write_wheel(folder, "tiny_optimiser", "2.0")
    write_wheel(folder, "tiny_plots", "3.1")
    write_wheel(folder, "tiny_rival", "1.0", ["Requires-Dist: libtpu==0.0.21"])
    own = ("ipykernel", "psutil", "pyzmq", "uv", "tqdm", "decorator", "ipyparallel")
    (folder / "lock.txt").write_text("".join(_locked(folder, name) for name in own))
    return {
        "UV_FIND_LINKS": str(folder),
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(folder / "cache"),
        "JUPYTER_TPU_WORKER_LOCK": str(folder / "lock.txt"),
    }


def _locked(folder: Path, name: str) -> str:
    (wheel,) = folder.glob(f"{name}-*.whl")
    return (
        f"{name}=={wheel.name.split('-')[1]} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
    )
