"""What the agent keeps is closed to other users, also where a folder's permissions are opened later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

UMASK = "import os; umask = os.umask(0); os.umask(umask); print(umask)"


@pytest.fixture
def users_umask() -> Iterator[int]:
    """That of most users, before anything is started."""
    before = os.umask(0o022)
    yield 0o022
    os.umask(before)


async def test_the_agents_files_are_closed_and_a_kernel_has_the_users_umask(
    users_umask: int, client: Any, worker: Any
) -> None:
    await client.start()
    await client.run(UMASK)
    worker.kill(client.link.agent["pid"])
    await client.run(UMASK)
    await client.link.call("restart_kernel", {"kernel_id": "kernel-1", "key": "secret"})
    await client.run(UMASK)
    assert client.printed() == f"{users_umask}\n" * 3
    root = Path(worker.home) / ".jupyter-tpu"
    paths = [path for path in root.rglob("*") if not path.is_symlink() and not {"env", "__pycache__"} & {*path.parts}]
    assert len(paths) > 10
    assert [str(path) for path in paths if path.stat().st_mode & 0o077] == []


@pytest.mark.nightly
async def test_a_kernels_folder_that_was_opened_to_others_keeps_no_agent_from_the_other_kernels(
    client: Any, worker: Any
) -> None:
    other = type(client)(client.link, "kernel-2")
    for each in (client, other):
        await each.start()
        await each.run("x = 41")
    kernels = Path(worker.home) / ".jupyter-tpu" / "kernels"
    (kernels / "kernel-1").chmod(0o750)
    worker.kill(client.link.agent["pid"])
    await other.run("print(x + 1)")
    assert other.printed() == "42\n"
