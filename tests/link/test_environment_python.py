"""A worker whose Python is too old for a framework: another is fetched or was sent, and kernels run in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiers import mostly_nightly
from tiny_python import KEY, OWN, unpack_old_python, write_list, write_python
from tiny_wheels import write_index

from jupyter_tpu.errors import EnvironmentFailed


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_python(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def old_python(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_old_python(tmp_path_factory.mktemp("old"), archive)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A package index in a folder, for a uv that may fetch Pythons."""
    folder = tmp_path_factory.mktemp("index")
    (folder / "none").mkdir()
    found = {**write_index(folder / "wheels"), "UV_DEFAULT_INDEX": (folder / "none").as_uri(), "UV_HTTP_RETRIES": "0"}
    del found["UV_OFFLINE"]
    return found


@pytest.fixture
def old_worker(worker: Any, old_python: Path, index: dict[str, str], archive: Path, tmp_path: Path) -> Any:
    """Its python3 says that it is 3.10; uv lies where its installer puts it, and knows one Python to fetch."""
    local = worker.home / ".local/bin"
    local.mkdir(parents=True)
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    (local / "uv").symlink_to(uv if uv.is_file() else str(shutil.which("uv")))
    worker.env.update(index, PATH=f"{old_python.parent}:/bin", **write_list(tmp_path, archive))
    return worker


async def make_jax(link: Any) -> dict[str, Any]:
    return dict(await link.call("make_environment", {"framework": "jax"}))


def cut(archive: Path, to: Path) -> Path:
    to.write_bytes(archive.read_bytes()[:1_000_000])
    return to


async def assert_kernels_run(client: Any, made: dict[str, Any]) -> None:
    await client.start(python=made["path"])
    await client.run("import jax, sys; print(sys.version_info[:2])")
    assert client.printed() == f"({OWN.replace('.', ', ')})\n"


async def test_where_the_workers_python_is_too_old_another_is_fetched(
    old_worker: Any, open_link: Any, new_client: Any
) -> None:
    link = await open_link()
    made = await make_jax(link)
    assert made["python"].startswith(OWN)
    assert (old_worker.home / ".local/share/uv/python" / KEY).is_dir()
    await assert_kernels_run(new_client(link), made)


@pytest.mark.nightly
async def test_a_python_that_was_sent_is_taken_and_nothing_is_fetched(
    old_worker: Any, open_link: Any, new_client: Any, archive: Path
) -> None:
    old_worker.env["UV_PYTHON_DOWNLOADS"] = "never"
    wheels = old_worker.home / ".jupyter-tpu/wheels"
    link = await open_link()
    wheels.mkdir()
    sent = wheels / f"{KEY}.tar.gz"
    cut(archive, sent)
    with pytest.raises(EnvironmentFailed, match="is damaged") as damaged:
        await make_jax(link)
    assert damaged.value.hint == "Send the archive again with `--push`."
    shutil.copy(archive, sent)
    await assert_kernels_run(new_client(link), await make_jax(link))
    assert not (old_worker.home / ".local/share/uv/python" / KEY).exists()


def change_hash(folder: Path, archive: Path) -> dict[str, str]:
    return write_list(folder, archive, sha256="0" * 64)


def cut_short(folder: Path, archive: Path) -> dict[str, str]:
    return write_list(folder, cut(archive, folder / "cut.tar.gz"))


def forbid(folder: Path, archive: Path) -> dict[str, str]:
    return {**write_list(folder, archive), "UV_PYTHON_DOWNLOADS": "never"}


@pytest.mark.parametrize(
    ("damage", "reason", "way_out"),
    mostly_nightly(
        [
            (change_hash, "Hash mismatch", "has changed it. Try again"),
            (cut_short, "unexpected end of file", "`jupyter tpu env make NODE jax --push`"),
            (forbid, "No interpreter found", "python-install-mirror"),
        ],
        count=1,
    ),
)
async def test_a_python_that_cannot_be_fetched_is_a_failure_with_ways_out_and_the_next_try_fetches_it(
    old_worker: Any,
    open_link: Any,
    archive: Path,
    tmp_path: Path,
    damage: Callable[[Path, Path], dict[str, str]],
    reason: str,
    way_out: str,
) -> None:
    before = dict(old_worker.env)
    old_worker.env.update(damage(tmp_path, archive))
    link = await open_link()
    with pytest.raises(EnvironmentFailed, match=r"the worker has 3\.10, and uv can't get another") as failed:
        await make_jax(link)
    assert reason in failed.value.message
    assert way_out in failed.value.hint
    assert failed.value.hint.endswith("JAX 0.6 works with Python 3.10: `jupyter tpu env make NODE jax --version 0.6`.")
    assert (await link.call("environments", {}))["environments"] == []
    await link.close()
    old_worker.kill_everything()
    old_worker.env.clear()
    old_worker.env.update(before)
    write_list(tmp_path, archive)
    assert (await make_jax(await open_link()))["python"].startswith(OWN)


async def opened_by_reader(fifo: Path) -> int:
    """A descriptor to write to it, once somebody reads."""
    async with asyncio.timeout(90):
        while True:
            try:
                return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                await asyncio.sleep(0.05)


@pytest.mark.nightly
async def test_an_agent_that_is_killed_while_a_python_is_fetched_goes_on(
    old_worker: Any, open_link: Any, archive: Path, tmp_path: Path
) -> None:
    slow = tmp_path / "slow.tar.gz"
    shutil.copy(archive, slow)
    write_list(tmp_path, slow)
    slow.unlink()
    os.mkfifo(slow)
    making = asyncio.create_task(make_jax(await open_link()))
    source = await opened_by_reader(slow)
    old_worker.kill(old_worker.agent_pid())
    making.cancel()
    slow.unlink()
    shutil.copy(archive, slow)
    os.close(source)

    again = await open_link()

    (found,) = (await again.call("environments", {}))["environments"]
    assert found["is_unfinished"]
    assert (await make_jax(again))["python"].startswith(OWN)
