"""SSH keys in the metadata of the project let in on its workers, unless the node blocks them."""

from __future__ import annotations

from typing import Any

import aiohttp
import asyncssh
import pytest

from jupyter_tpu.emulator.workers.project_metadata import ssh_keys


async def set_items(emulator: Any, **items: str) -> None:
    project = f"{emulator.rest}/compute/v1/projects/{emulator.project}"
    async with aiohttp.ClientSession() as session:
        async with session.get(project) as answer:
            fingerprint = (await answer.json())["commonInstanceMetadata"]["fingerprint"]
        body = {
            "fingerprint": fingerprint,
            "items": [{"key": key.replace("_", "-"), "value": value} for key, value in items.items()],
        }
        async with session.post(f"{project}/setCommonInstanceMetadata", json=body) as answer:
            assert (await answer.json())["status"] == "DONE"


async def test_a_key_of_the_project_logs_in_on_a_worker_that_is_up(
    cloud: Any, emulator: Any, user_key: Any, login: Any
) -> None:
    await cloud.create()
    (items,) = await cloud.guest_items()
    with pytest.raises(asyncssh.PermissionDenied):
        await login(items)

    await set_items(emulator, ssh_keys=user_key.metadata["ssh-keys"])

    connection = await login(items)
    assert (await connection.run("echo in", check=True)).stdout == "in\n"


async def test_a_node_that_blocks_the_keys_of_the_project_lets_nobody_in(
    cloud: Any, emulator: Any, user_key: Any, login: Any
) -> None:
    await set_items(emulator, ssh_keys=user_key.metadata["ssh-keys"])
    await cloud.create(metadata={"block-project-ssh-keys": "TRUE"})

    with pytest.raises(asyncssh.PermissionDenied):
        await login((await cloud.guest_items())[0])


@pytest.mark.parametrize(
    ("node", "project", "keys"),
    [
        ({}, {}, ""),
        ({"ssh-keys": "a:k"}, {}, "a:k"),
        ({}, {"ssh-keys": "b:k"}, "b:k"),
        ({"ssh-keys": "a:k"}, {"ssh-keys": "b:k"}, "a:k\nb:k"),
        ({"ssh-keys": "a:k", "block-project-ssh-keys": "true"}, {"ssh-keys": "b:k"}, "a:k"),
        ({"block-project-ssh-keys": "FALSE"}, {"ssh-keys": "b:k"}, "b:k"),
    ],
)
def test_keys_of_node_and_project_are_taken_together(node: dict[str, str], project: dict[str, str], keys: str) -> None:
    assert ssh_keys(node, project) == keys
