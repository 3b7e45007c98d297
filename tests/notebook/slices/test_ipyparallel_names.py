"""The private names of ipyparallel and ipykernel that slices use."""

from __future__ import annotations

import inspect

import pytest
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelbase import Kernel
from ipyparallel.client import client
from ipyparallel.client.futures import MessageFuture
from ipyparallel.controller.app import IPController
from ipyparallel.engine.kernel import IPythonParallelKernel


@pytest.mark.parametrize("name", ["_registration_callbacks", "_engines", "_setup_streams", "_send", "_dispatch_iopub"])
def test_the_client_has_the_names_that_cluster_uses(name):
    assert hasattr(client.Client, name)


@pytest.mark.parametrize("name", ["_mux_socket", "_mux_stream", "_control_stream", "_iopub_stream", "_io_loop"])
def test_the_clients_streams_and_loop_have_their_names(name):
    assert f"self.{name} = " in inspect.getsource(client.Client)


def test_messages_are_sent_with_a_hook_that_listens_first():
    parameters = inspect.signature(client.Client._send).parameters
    assert {"socket", "msg_type", "content", "ident", "metadata", "track_outstanding", "message_future_hook"} <= {
        *parameters
    }
    assert MessageFuture("id").iopub_callbacks == []


def test_the_client_finds_ipython_by_a_name_of_its_module():
    assert callable(client.get_ipython)


def test_the_client_knows_the_sockets_that_report_a_lost_controller():
    assert client.zmq.EVENT_DISCONNECTED
    assert callable(client.ZMQStream)


def test_engines_run_cells_with_the_method_that_is_mended():
    assert "super().do_execute" in inspect.getsource(IPythonParallelKernel.do_execute)
    assert "self.shell_channel_thread.parent_thread" in inspect.getsource(IPythonKernel.do_execute)
    assert hasattr(IPythonKernel, "_cancel_on_sigint")
    assert {"status", "channel"} <= {*inspect.signature(Kernel._publish_status).parameters}
    assert hasattr(Kernel, "_publish_execute_input")
    assert "self.saved_sigint_handler = signal(SIGINT, " in inspect.getsource(Kernel.pre_handler_hook)
    assert "self.control_handlers.get(" in inspect.getsource(Kernel.process_control)


def test_the_controller_can_wait_for_slow_engines():
    assert IPController.registration_timeout.metadata["config"]
