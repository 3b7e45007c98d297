"""``%tpu_init`` on a node: one kernel has the chips, the next hears which notebook that is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from jupyter_tpu.models import Node

PATIENCE_S = 90


class Notebook:
    """A notebook of that name, with a kernel on the node."""

    def __init__(self, kernel_name: str, name: str) -> None:
        self._manager = KernelManager(kernel_name=kernel_name)
        self._manager.start_kernel(env={**os.environ, "JPY_SESSION_NAME": name})
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE_S)

    def run(self, code: str, answer: str = "") -> str:
        """What a cell shows; what it asks is answered."""
        shown: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            content = message["content"]
            shown.append(content.get("text", ""))  # one print may arrive in several messages
            blocks = (content.get("data", {}).get("text/plain"), *content.get("traceback", ()))
            shown.extend(f"{block}\n" for block in blocks if block)

        self._client.execute_interactive(
            code,
            allow_stdin=bool(answer),
            output_hook=hear,
            stdin_hook=lambda _: self._client.input(answer),
            timeout=PATIENCE_S,
        )
        return "".join(shown)

    def end(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def open_notebook(kernel_name: str) -> Iterator[Callable[[str], Notebook]]:
    opened: list[Notebook] = []

    def open_one(name: str) -> Notebook:
        opened.append(Notebook(kernel_name, name))
        return opened[-1]

    yield open_one
    for each in opened:
        each.end()


def test_the_second_notebook_hears_of_the_first_and_can_have_the_chips_once_they_are_free(open_notebook: Any) -> None:
    first, second = open_notebook("/home/ada/first.ipynb"), open_notebook("/home/ada/second.ipynb")
    assert "JAX is ready on 8 devices of v5litepod-8" in first.run("%tpu_init")
    assert "does not use the chips" not in first.run("%%tpu_time\n1"), "who holds them is asked now"

    refused = second.run("%tpu_init")
    assert "The TPU is in use by process " in refused
    assert "the kernel of the notebook /home/ada/first.ipynb." in refused
    assert "To end that notebook's kernel, run `%tpu release`" in refused
    assert "JAX is ready" in first.run("%tpu_init"), "which processes use the chips may say so again"

    freed = second.run("%env JUPYTER_TPU_PATIENCE_S=90\n%tpu release", answer="y")
    assert "has ended.\nThe chips are free." in freed
    assert "JAX is ready on 8 devices of v5litepod-8" in second.run("%tpu_init")


@pytest.mark.nightly
async def test_the_chips_are_measured_from_tpu_init_on_and_free_with_the_end_of_their_kernel(
    open_notebook: Any, node: Node, open_link: Any
) -> None:
    link = await open_link(node)
    await sample(link, "idle")
    notebook = await asyncio.to_thread(open_notebook, "/home/ada/measured.ipynb")

    assert "JAX is ready" in await asyncio.to_thread(notebook.run, "%tpu_init")

    measured = await sample(link, "measured")
    assert len(measured["chips"]) == 8
    assert [each["notebook"] for each in measured["holders"]] == ["/home/ada/measured.ipynb"]

    await asyncio.to_thread(notebook.end)
    await sample(link, "idle")
    after = await asyncio.to_thread(open_notebook, "/home/ada/after.ipynb")
    assert "JAX is ready" in await asyncio.to_thread(after.run, "%tpu_init")


async def sample(link: Any, state: str) -> dict[str, Any]:
    """The worker's newest, once it is in that state."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await link.call("metrics", {"history_s": 0, "points": 1}))["sample"]
            if found and found["state"] == state:
                return dict(found)
            await asyncio.sleep(0.1)


@pytest.mark.nightly
def test_a_notebook_that_only_imports_jax_has_the_devices_and_keeps_others_from_them(open_notebook: Any) -> None:
    first, second = open_notebook("/home/ada/plain.ipynb"), open_notebook("/home/ada/other.ipynb")

    assert "devices: 8" in first.run("import jax; print('devices:', len(jax.devices()))")
    pid = first.run("import os; print(os.getpid())").strip()
    assert f"The TPU is already in use by process with pid {pid}." in second.run("import jax; jax.devices()")
    assert "JAX is ready on 8 devices of v5litepod-8" in first.run("%tpu_init")
