"""Pack the agent's code from the client's installed package, ready to send to a worker.

The archive is reproducible, so its hash shows whether a worker already has it.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

CATALOGUE = "node.mo"
"""The file with the translations of the packed modules only; the package's full catalogue is several times as large."""

_MODULES = (
    "__init__.py",
    "_version.py",
    "durations.py",
    "errors.py",
    "files.py",
    "i18n.py",
    "provisioning.py",
    "models.py",
    "autostop.py",
    "diagnostics.py",
    "frameworks.py",
    "metrics.py",
    "tpu_files.py",
    "worker_clock.py",
    "sample_table.py",
    "accelerators.py",
    "catalogue.json",
)
_PACKAGES = ("commands", "wire", "agent", "notebook")
_KINDS = (".py", ".txt", ".js", ".css")  # the last two are the front-end code of the notebook's widgets
# The supervisor runs during the node's whole lifetime. It imports none of the agent's modules, so that it uses little
# memory and starts quickly.
_START = b"""import sys
from importlib import import_module

module = {"agent": "main", "supervise": "supervisor", "files": "files.main"}[sys.argv[1]]
import_module(f"jupyter_tpu.agent.{module}").main(sys.argv[2:])
"""
# The date of all files in the archive: the earliest date that the zip format supports. With the real date, the hash
# would change.
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Archive:
    """The agent's code as a zip file, and its SHA-256 in hexadecimal."""

    content: bytes
    digest: str


@cache
def agent_archive() -> Archive:
    """Return the part of the installed package that a worker needs, packed once per process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _START)
        for name, source in sorted(_sources()):
            _add(archive, f"jupyter_tpu/{name}", source.read_bytes())
    content = buffer.getvalue()
    return Archive(content, hashlib.sha256(content).hexdigest())


@cache
def sources_digest() -> str:
    """Return a SHA-256 of the files that `agent_archive` packs; this is about ten times as fast as packing them."""
    digest = hashlib.sha256(_START)
    for name, source in sorted(_sources()):
        content = source.read_bytes()
        digest.update(b"%b %d\n%b" % (name.encode(), len(content), content))
    return digest.hexdigest()


def packed_names() -> list[str]:
    """Return the packed files' paths, relative to the package."""
    return [name for name, _ in _sources()]


def bootstrap_source() -> bytes:
    """Return the program that unpacks the archive on the worker."""
    return (files("jupyter_tpu") / "agent" / "bootstrap.py").read_bytes()


def relay_source() -> bytes:
    """Return the program that connects an exec channel to the agent's socket."""
    return (files("jupyter_tpu") / "agent" / "relay.py").read_bytes()


def wheels_source() -> bytes:
    """Return the program that receives wheels on the worker."""
    return (files("jupyter_tpu") / "agent" / "environments" / "wheels.py").read_bytes()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    archive.writestr(entry, content)


def _sources() -> Iterator[tuple[str, Traversable]]:
    package = files("jupyter_tpu")
    for name in _MODULES:
        if (package / name).is_file():
            yield name, package / name
    for name in _PACKAGES:
        yield from _below(name, package / name)
    for language in (package / "locale").iterdir():
        folder = language / "LC_MESSAGES"
        if (folder / CATALOGUE).is_file():
            yield f"locale/{language.name}/LC_MESSAGES/jupyter_tpu.mo", folder / CATALOGUE


def _below(name: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for source in folder.iterdir():
        if source.is_dir():
            yield from _below(f"{name}/{source.name}", source)
        elif source.name.endswith(_KINDS):
            yield f"{name}/{source.name}", source
