"""A node that reaches nothing and whose Python is too old: the laptop sends a Python as well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from emulator import Emulator, own_emulator
from tiny_python import KEY, unpack_old_python, write_list, write_python
from tiny_wheels import write_index

if TYPE_CHECKING:
    from terminal import Terminal

pytestmark = pytest.mark.nightly

ZONE = "us-central1-a"
MAKE = ("env", "make", "far-node", "jax", "--push")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_index(tmp_path_factory.mktemp("index") / "wheels")


@pytest.fixture(scope="module")
def shared_emulator(
    tmp_path_factory: pytest.TempPathFactory, archive: Path, index: dict[str, str]
) -> Iterator[Emulator]:
    """Its workers find nothing, and their python3 says that it is 3.10."""
    old = unpack_old_python(tmp_path_factory.mktemp("old"), archive)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"},
        "JUPYTER_TPU_WORKER_LOCK": index["JUPYTER_TPU_WORKER_LOCK"],
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
        "UV_PYTHON_PREFERENCE": "only-managed",
        "PIP_NO_INDEX": "1",
    }
    options = ("--worker-image", "bare", "--worker-python", str(old))
    with own_emulator(*options, environment=environment) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory, archive: Path, index: dict[str, str]) -> dict[str, str]:
    """The laptop's variables: it has an index of packages and a list of Pythons, though only in folders."""
    folder = tmp_path_factory.mktemp("laptop")
    (folder / "none").mkdir()
    return {
        **index,
        **write_list(folder, archive),
        "UV_OFFLINE": "0",
        "UV_DEFAULT_INDEX": (folder / "none").as_uri(),
        "PIP_FIND_LINKS": index["UV_FIND_LINKS"],
    }


@pytest.fixture(scope="module", autouse=True)
def node(terminal: Terminal) -> None:
    created = terminal.tpu("create", "far-node", "--type", "v5litepod-8", "--zone", ZONE)
    assert created.returncode == 0, created.stderr


def test_a_python_is_sent_with_the_packages_where_the_workers_own_is_too_old(
    terminal: Terminal, laptop: dict[str, str]
) -> None:
    refused = terminal.tpu(*MAKE, "--version", "0.10", **{**laptop, "UV_PYTHON_DOWNLOADS": "never"})

    assert refused.returncode == 1
    assert "This machine could not fetch a Python for JAX 0.10 for the worker." in refused.stderr
    assert "Or omit `--version` to upload a release for the worker's own Python." in refused.stderr

    made = terminal.tpu(*MAKE, **laptop)

    assert made.returncode == 0, made.stderr
    assert "Fetching a Python for JAX 0.10: the worker has 3.10" in made.stderr
    assert f"Sending {KEY}.tar.gz" in made.stderr
    assert made.stdout.startswith(f"JAX 0.10 is installed on far-node, with Python {KEY.split('-')[1]}")
