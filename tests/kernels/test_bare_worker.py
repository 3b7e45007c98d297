"""A kernel on a worker as the real image gives it: a Python without ipykernel, and no uv."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from jupyter_client.manager import AsyncKernelManager
from jupyter_events import EventLogger
from traitlets import Instance

from jupyter_tpu.kernels.kernelspecs import write_kernelspec
from jupyter_tpu.kernels.progress import KERNEL_SCHEMA


class ListeningManager(AsyncKernelManager):
    """A manager with an event logger, as Jupyter Server's."""

    event_logger = Instance(EventLogger)


def logger_into(events: list[dict[str, Any]]) -> EventLogger:
    async def keep(logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        events.append(data)

    logger = EventLogger()
    logger.register_event_schema(files("jupyter_tpu.server.events").joinpath("kernel.yaml").read_text())
    logger.add_listener(schema_id=KERNEL_SCHEMA, listener=keep)
    return logger


async def result_of(manager: AsyncKernelManager, code: str) -> str:
    results: list[dict[str, str]] = []
    client = manager.client()
    client.start_channels(hb=False)
    try:
        await client.execute_interactive(
            code, timeout=60, output_hook=lambda message: results.append(message["content"].get("data", {}))
        )
    finally:
        client.stop_channels()
    return next(data["text/plain"] for data in results if data)


@pytest.fixture(scope="module")
def bare_kernel_name(bare_cloud: Any) -> str:
    return write_kernelspec(bare_cloud.create_node("bare-node"), bare_cloud.settings)


async def test_a_kernel_starts_on_a_bare_worker_and_shows_what_is_installed_for_it(bare_kernel_name: str) -> None:
    events: list[dict[str, Any]] = []
    logger = logger_into(events)
    manager = ListeningManager(kernel_name=bare_kernel_name, event_logger=logger)
    await manager.start_kernel()
    assert await result_of(manager, "1 + 1") == "2"
    await manager.shutdown_kernel()
    await logger.gather_listeners()
    said = " · ".join(event["message"] for event in events)
    assert "Downloading uv" in said
    assert "Installing ipykernel" in said
    assert [event["phase"] for event in events if event["error_code"]] == []
