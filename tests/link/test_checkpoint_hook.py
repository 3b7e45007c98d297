"""``%%tpu_on_preempt``: a kernel's hook runs when its agent learns that the node is about to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_tpu.errors import BadInput

if TYPE_CHECKING:
    from conftest import Client
    from jupyter_tpu.link import Link

BY_BUDGET = {"reason": "the budget is used up", "ends_in_s": 600}
PATIENCE_S = 90
# The main thread waits in a library that does not come back to Python, until the hook wakes it. Waiting gives the mutex
# away, so the thread that gets it knows that the main thread waits.
WAIT_IN_A_LIBRARY = """\
import ctypes, threading
libc, mutex, condition = ctypes.CDLL(None), ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)

def tell():
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_unlock(mutex)
    print("waiting", flush=True)

libc.pthread_mutex_lock(mutex)
threading.Thread(target=tell).start()
libc.pthread_cond_wait(condition, mutex)
print("woken by", where)
"""
WAKE = """\
%%tpu_on_preempt
where = threading.current_thread().name
libc.pthread_mutex_lock(mutex)
libc.pthread_cond_signal(condition)
libc.pthread_mutex_unlock(mutex)
"""


async def prepare(link: Link) -> list[dict[str, Any]]:
    """Say that the node ends, again and again as a server does, until it may; what became of the hooks."""
    async with asyncio.timeout(PATIENCE_S):
        while not (said := await link.call("prepare_to_end", BY_BUDGET))["is_ready"]:  # noqa: ASYNC110 - so do servers
            await asyncio.sleep(0.05)
    return list(said["hooks"])


async def test_a_hook_runs_in_a_thread_while_the_main_thread_is_in_a_library(client: Client) -> None:
    await client.start()
    await client.run(WAKE)
    waiting = client.execute(WAIT_IN_A_LIBRARY)
    await client.wait(lambda message: "waiting" in str(message.get("content", {}).get("text")), PATIENCE_S)

    (hook,) = await prepare(client.link)

    assert hook["status"] == "ran"
    assert (await client.reply(waiting))["content"]["status"] == "ok"
    assert "woken by jupyter-tpu notices\n" in client.printed()


async def test_an_error_in_a_hook_is_told_and_is_not_the_others(
    client: Client, open_link: Callable[..., Awaitable[Link]], new_client: type[Client]
) -> None:
    other = new_client(client.link, "kernel-2")
    await asyncio.gather(client.start(), other.start())
    await asyncio.gather(
        client.run("%%tpu_on_preempt\nmodel = None\nmodel.save()"), other.run("%%tpu_on_preempt\nprint('saved')")
    )

    hooks = {hook["kernel_id"]: hook for hook in await prepare(client.link)}

    assert {name: hook["status"] for name, hook in hooks.items()} == {"kernel-1": "failed", "kernel-2": "ran"}
    event = await client.event("checkpoint_hook")
    assert "AttributeError: 'NoneType' object has no attribute 'save'" in event["message"]
    assert event["reason"] == BY_BUDGET["reason"]
    await client.wait(lambda message: "model.save()" in str(message.get("content", {}).get("text")), PATIENCE_S)
    assert (await client.run("model"))["content"]["status"] == "ok"
    await other.wait(lambda message: "saved" in str(message.get("content", {}).get("text")), PATIENCE_S)


@pytest.mark.nightly
async def test_ends_that_are_told_more_than_once_are_one(client: Client) -> None:
    await client.start()
    await client.run("runs = 0")
    await client.run("%%tpu_on_preempt\nruns += 1")
    first = await prepare(client.link)
    assert [hook["notice_id"] for hook in await prepare(client.link)] == [first[0]["notice_id"]]
    await client.run("print('runs:', runs)")
    assert "runs: 1\n" in client.printed()


@pytest.mark.nightly
async def test_a_hook_that_was_cleared_is_not_run(client: Client) -> None:
    await client.start()
    await client.run("%%tpu_on_preempt\nprint('saved')")
    await client.run("%tpu_on_preempt --clear")
    assert await prepare(client.link) == []


async def test_a_server_that_gives_no_reason_is_refused(client: Client) -> None:
    with pytest.raises(BadInput):
        await client.link.call("prepare_to_end", {"ends_in_s": 5})
