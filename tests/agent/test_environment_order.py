"""What a client orders for a framework's environment is checked, and the Python for it chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.agent.environments.build import merged
from jupyter_tpu.agent.environments.files import EnvironmentFiles, name_and_version, names
from jupyter_tpu.agent.environments.python import accepted_pythons, no_python, preferred_python
from jupyter_tpu.agent.environments.request import EnvironmentRequest
from jupyter_tpu.agent.environments.uv import NO_INDEX, exit_reason, failed
from jupyter_tpu.agent.paths import Home
from jupyter_tpu.errors import BadInput
from jupyter_tpu.frameworks import Release, newest, release_of


def known(framework: str, version: str) -> Release:
    found = release_of(framework, version)
    assert found
    return found


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({}, "is not a framework for TPUs"),
        ({"framework": "mxnet"}, "is not a framework for TPUs"),
        ({"framework": "jax", "version": 9}, "must be a string"),
        ({"framework": "jax", "version": "0.1"}, "libtpu and Python jax '0.1' needs"),
        ({"framework": "tf", "version": "2.18"}, "no package index offers its libtpu"),
        ({"framework": "jax", "requirements": "numpy"}, "must be a list of requirements"),
        ({"framework": "jax", "requirements": ["--index-url=x"]}, "must be a list of requirements"),
        ({"framework": "jax", "packages": ["numpy\n--pre"]}, "must be a list of requirements"),
        ({"framework": "jax", "pins": [""]}, "must be a list of requirements"),
        ({"framework": "jax", "pins": ["x"] * 5001}, "There are 5001 pins; at most 5000 are allowed"),
        ({"framework": "jax", "requirements": ["x" * 2001]}, "One of the requirements has 2001 characters; at most"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(order: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        EnvironmentRequest.from_params(order)


def test_an_order_is_the_same_after_it_lay_on_the_disk(tmp_path: Path) -> None:
    order = EnvironmentRequest("jax", "0.9", ("numpy>=2",), ("jax==0.9.2",), ("a @ https://example.org/a.whl",))
    files = EnvironmentFiles(Home(tmp_path), "jax")
    files.home.environments.mkdir()
    files.set_pending_request(order)
    assert files.pending_request() == order
    (files.home.environments / "jax.order.json").write_text('{"framework": "jax", "pins": 7}')
    assert files.pending_request() is None


def test_an_order_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    files = EnvironmentFiles(Home(tmp_path), "jax")
    in_the_way = files.home.environments / "jax.order.json"
    in_the_way.mkdir(parents=True)
    with pytest.raises(OSError, match=in_the_way.name):
        files.set_pending_request(EnvironmentRequest("jax"))
    assert list(files.home.environments.iterdir()) == [in_the_way]


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        (
            "Prepared 2 packages\nerror: Failed to install: a.whl\n  cause: No space left on device (os error 28)\n",
            "install a on the worker: Failed to install: a.whl cause: No space left on device (os error 28).",
            "disk is full",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            "on the worker: Could not install packages due to an OSError: [Errno 28] No space left on device.",
            "disk is full",
        ),
        (
            "error: Couldn't parse requirement in `wanted.in` at position 0\n  cause: Expected one of `@`",
            "on the worker: Couldn't parse requirement in `wanted.in` at position 0 cause: Expected one of `@`.",
            "Fix that requirement",
        ),
        (
            "  × No solution found\n  ╰─▶ Because b was not found in the cache\n      and you require b, no.\n\nhint:",
            "on the worker: Because b was not found in the cache and you require b, no.",
            NO_INDEX,
        ),
        (exit_reason(-9), "on the worker: it was ended by SIGKILL.", "short of memory"),
        (exit_reason(1), "Could not install a on the worker.", NO_INDEX),
    ],
)
def test_what_a_step_of_uv_has_said_gives_the_reason_and_the_way_out(said: str, message: str, hint: str) -> None:
    error = failed("install a", said)
    assert error.message.endswith(message)
    assert hint in error.hint


@pytest.mark.parametrize(
    ("release", "own", "fetched"),
    [
        (newest("jax"), (3, 10), (3, 12)),
        (newest("jax"), (3, 11), None),
        (newest("tf"), (3, 14), (3, 12)),
        (known("torch_xla", "2.7"), (3, 12), (3, 11)),
    ],
)
def test_a_python_is_fetched_only_where_the_workers_own_does_not_fit(
    release: Release, own: tuple[int, int], fetched: tuple[int, int] | None
) -> None:
    assert preferred_python(release, own) == fetched


@pytest.mark.parametrize(
    ("release", "own", "accepted"),
    [(newest("jax"), (3, 10), ">=3.11,<3.13"), (newest("tf"), (3, 14), ">=3.9,<3.13")],
)
def test_of_the_pythons_that_fit_none_is_newer_than_the_usual_one(
    release: Release, own: tuple[int, int], accepted: str
) -> None:
    preferred = preferred_python(release, own)
    assert preferred
    assert accepted_pythons(release, preferred) == accepted


def test_without_a_python_that_fits_an_older_release_is_named() -> None:
    message, ways_out = no_python(newest("jax"), (3, 10), "")
    assert message == "JAX 0.10 needs Python 3.11 or newer; the worker has 3.10, and uv can't get another."
    assert "`jupyter tpu env make NODE jax --push`" in ways_out
    assert ways_out.endswith("`jupyter tpu env make NODE jax --version 0.6`.")
    assert no_python(newest("torch_tpu"), (3, 10), "Free space.")[1] == "Free space."


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("numpy==2.1", ("numpy", "2.1")),
        ("torch_xla[tpu]==2.9.0", ("torch_xla", "2.9.0")),
        ("a @ git+https://example.org/a@1f", ("a", "git+https://example.org/a@1f")),
        ("tiny>=2", ("tiny", "")),
        ("??", ("??", "")),
    ],
)
def test_a_line_says_which_package_in_which_version(line: str, found: tuple[str, str]) -> None:
    assert name_and_version(line) == found


def test_many_names_are_cut_short() -> None:
    assert names(["a==1", "b"]) == "a, b"
    assert names([f"p{number}" for number in range(10)]).endswith("p7 and 2 more")


@pytest.mark.parametrize(
    ("before", "more", "now"),
    [
        (["a==1", "b"], ["a==1"], ("a==1", "b")),
        (["a==1", "b"], ["A>=2"], ("b", "A>=2")),
        (["a_b>1", "a.b<3"], ["a-b>1"], ("a-b>1",)),
        (["a>1"], ["a>1", "a<3"], ("a>1", "a<3")),
        (["a[x]==1"], ["a @ https://example.org/a.whl"], ("a @ https://example.org/a.whl",)),
    ],
)
def test_a_package_that_is_required_anew_counts_only_as_it_is_required_now(
    before: list[str], more: list[str], now: tuple[str, ...]
) -> None:
    assert merged(before, more) == now
