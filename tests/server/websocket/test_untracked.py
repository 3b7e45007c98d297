"""What a kernel does beside a cell is not taken for what it works at."""

from __future__ import annotations

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets.config import Config, LoggingConfigurable

from jupyter_tpu.server.websocket.control_requests import exclude_control_requests

REQUESTS = {"create_subshell_request", "delete_subshell_request", "list_subshell_request"}


def test_subshells_are_no_activity_and_all_else_is_as_it_was() -> None:
    manager = AsyncMappingKernelManager()
    before = set(manager.untracked_message_types)

    exclude_control_requests(manager)

    assert set(manager.untracked_message_types) == before | REQUESTS
    assert not manager.track_message_type("create_subshell_request")
    assert manager.track_message_type("execute_request")


@pytest.mark.parametrize("owner", ["MappingKernelManager", "AsyncMappingKernelManager"])
def test_what_the_user_has_configured_stays(owner: str) -> None:
    manager = AsyncMappingKernelManager(config=Config({owner: {"untracked_message_types": ["debug_request"]}}))

    exclude_control_requests(manager)

    assert manager.untracked_message_types == ["debug_request"]


def test_a_manager_without_such_a_list_is_left_alone() -> None:
    exclude_control_requests(LoggingConfigurable())
