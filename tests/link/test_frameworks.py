"""Environments for frameworks on a worker: made by the agent with uv, to the matrix."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tiny_wheels import JAX, write_index

from jupyter_tpu.errors import BadInput, EnvironmentFailed, WrongState


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_index(tmp_path_factory.mktemp("index") / "wheels")


@pytest.fixture
async def link(worker: Any, index: dict[str, str], open_link: Any) -> Any:
    """To a worker whose uv knows this index alone."""
    worker.env.update(index)
    return await open_link()


async def the_environment(link: Any) -> dict[str, Any]:
    (found,) = (await link.call("environments", {}))["environments"]
    return dict(found)


def pinned(environment: dict[str, Any]) -> dict[str, str]:
    return dict(line.split("==") for line in environment["pins"])


def pip_install(environment: dict[str, Any], index: dict[str, str], requirement: str) -> None:
    """As a user does it in a cell."""
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--find-links", index["UV_FIND_LINKS"]]
    subprocess.run([environment["path"], "-m", "pip", "install", *options, requirement], check=True)


def break_python(environment: dict[str, Any]) -> None:
    Path(environment["path"]).unlink()


async def test_kernels_run_in_an_environment_that_was_made_to_the_matrix(link: Any, new_client: Any) -> None:
    assert (await link.call("environments", {}))["environments"] == []
    made = await link.call("make_environment", {"framework": "jax"})
    assert (made["title"], made["is_ready"], made["notes"], made["added"]) == ("JAX 0.10", True, [], [])
    assert {"jax", "libtpu", "ipykernel", "ipywidgets", "anywidget", "pip"} <= pinned(made).keys()
    client = new_client(link)
    await client.start(python=made["path"])
    await client.run("import jax, libtpu; print(jax.VERSION, libtpu.VERSION)")
    assert client.printed() == f"{JAX} 0.0.42.99\n"
    with pytest.raises(WrongState, match="in use"):
        await link.call("remove_environment", {"framework": "jax"})
    await link.call("forget_kernel", {"kernel_id": client.kernel_id})
    assert await link.call("remove_environment", {"framework": "jax"}) == {"was_there": True}
    assert (await link.call("environments", {}))["environments"] == []
    assert await link.call("remove_environment", {"framework": "jax"}) == {"was_there": False}


async def test_requirements_are_added_and_what_contradicts_them_changes_nothing(
    link: Any, index: dict[str, str]
) -> None:
    await link.call("make_environment", {"framework": "jax", "requirements": ["tiny_optimiser<2"]})
    added = await link.call("make_environment", {"framework": "jax", "requirements": ["tiny_plots"]})
    assert added["requirements"] == ["tiny_optimiser<2", "tiny_plots"]
    assert (pinned(added)["tiny-optimiser"], pinned(added)["tiny-plots"]) == ("1.0", "3.1")
    for contradiction in ("libtpu==0.0.21", "tiny_rival"):
        with pytest.raises(EnvironmentFailed, match=r"cannot be installed with JAX 0\.10") as failed:
            await link.call("make_environment", {"framework": "jax", "requirements": [contradiction]})
        assert "Nothing was installed or changed." in failed.value.exists
        assert "(tiny_optimiser, tiny_plots) still apply; `jupyter tpu env remove NODE jax`" in failed.value.hint
    pip_install(added, index, "tiny_optimiser==2.0")
    now = await the_environment(link)
    assert (now["pins"], now["added"]) == (added["pins"], ["tiny_optimiser==2.0"])
    with pytest.raises(BadInput, match=r"has version 0\.10\.2, not 0\.9\.2"):
        await link.call("make_environment", {"framework": "jax", "version": "0.9"})


@pytest.mark.nightly
async def test_a_requirement_that_was_changed_takes_the_place_of_what_it_was(link: Any) -> None:
    await link.call("make_environment", {"framework": "jax", "requirements": ["tiny_optimiser==1.0", "tiny_plots"]})
    changed = await link.call("make_environment", {"framework": "jax", "requirements": ["Tiny-Optimiser==2.0"]})
    assert changed["requirements"] == ["tiny_plots", "Tiny-Optimiser==2.0"]
    assert pinned(changed)["tiny-optimiser"] == "2.0"
    assert (await the_environment(link))["added"] == []


async def test_of_requirements_that_never_fit_nothing_is_left(link: Any, worker: Any) -> None:
    with pytest.raises(EnvironmentFailed, match="libtpu"):
        await link.call("make_environment", {"framework": "jax", "requirements": ["libtpu==0.0.21"]})
    with pytest.raises(EnvironmentFailed, match="Couldn't parse requirement") as unreadable:
        await link.call("make_environment", {"framework": "jax", "requirements": ["tiny plots"]})
    assert unreadable.value.hint.startswith("Fix that requirement")
    assert (await link.call("environments", {}))["environments"] == []
    assert list((worker.home / ".jupyter-tpu/env").glob("jax*")) == []


@pytest.mark.nightly
async def test_what_failed_half_way_is_listed_and_can_be_removed(link: Any, worker: Any) -> None:
    with pytest.raises(EnvironmentFailed, match=r"Could not choose versions.*gone\.whl") as failed:
        await link.call("make_environment", {"framework": "jax", "requirements": ["gone @ file:///no/gone.whl"]})
    assert "`jupyter tpu env remove NODE jax` frees its space." in failed.value.exists
    left = await the_environment(link)
    assert (left["framework"], left["is_ready"], left["is_unfinished"]) == ("jax", False, True)
    assert await link.call("remove_environment", {"framework": "jax"}) == {"was_there": True}
    assert list((worker.home / ".jupyter-tpu/env").glob("jax*")) == []


@pytest.mark.nightly
async def test_an_environment_is_restored_with_what_its_user_had_added(link: Any) -> None:
    made = await link.call("make_environment", {"framework": "jax"})
    await link.call("remove_environment", {"framework": "jax"})
    order = {"framework": "jax", "version": made["version"], "pins": made["pins"]}
    packages = ["tiny_optimiser==1.0", "never_published==7", "tiny_plots==3.1"]
    restored = await link.call("make_environment", {**order, "packages": packages})
    assert restored["pins"] == made["pins"]
    assert restored["added"] == ["tiny_optimiser==1.0", "tiny_plots==3.1"]
    (note,) = restored["notes"]
    assert note.startswith("never_published==7 could not be installed again: ")


@pytest.mark.nightly
async def test_pins_that_are_no_longer_published_are_replaced_by_what_is(link: Any) -> None:
    order = {"framework": "jax", "version": "0.10.2", "pins": ["jax==0.10.2", "libtpu==0.0.42.77"]}
    restored = await link.call("make_environment", order)
    assert pinned(restored)["libtpu"] == "0.0.42.99"
    assert "Current versions were installed instead." in restored["notes"][0]


@pytest.mark.nightly
async def test_what_a_killed_agent_had_begun_goes_on_with_what_it_had(link: Any, worker: Any, open_link: Any) -> None:
    made = await link.call("make_environment", {"framework": "jax"})
    environments = worker.home / ".jupyter-tpu/env"
    (environments / "jax.json").unlink()
    (environments / "jax" / "had").touch()
    (environments / "jax.order.json").write_text(json.dumps({"framework": "jax", "packages": ["tiny_plots==3.1"]}))
    worker.kill(worker.agent_pid())
    again = await open_link()
    assert (await the_environment(again))["is_unfinished"]
    finished = await again.call("make_environment", {"framework": "jax"})
    assert (finished["pins"], finished["added"]) == (made["pins"], ["tiny_plots==3.1"])
    assert not finished["is_unfinished"]
    assert (environments / "jax" / "had").exists()


@pytest.mark.nightly
async def test_an_environment_that_broke_is_made_anew(link: Any, worker: Any) -> None:
    made = await link.call("make_environment", {"framework": "jax"})
    break_python(made)
    assert not (await the_environment(link))["is_ready"]
    assert (await link.call("make_environment", {"framework": "jax"}))["is_ready"]
