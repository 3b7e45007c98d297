"""The protocol's own test suite against a node: both ways to start a kernel, over both kinds of SSH server; a slice."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from typing import Any, ClassVar

import jupyter_kernel_test
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_kernel_test.msgspec_v5 import validate_message
from tiers import mostly_nightly

PATIENCE_S = 60


class _Samples(jupyter_kernel_test.KernelTests):
    """The suite as it is, with samples for IPython."""

    __test__ = False

    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples: ClassVar = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples: ClassVar = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples: ClassVar = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples: ClassVar = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise RuntimeError"
    code_execute_result: ClassVar = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data: ClassVar = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display; display(Math('x^2'))", "mime": "text/latex"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search", "range")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class _OnANode(_Samples):
    """The suite against a node; `fixture` names the fixture that names the kernelspec."""

    fixture: ClassVar[str]

    def history_helper(self, execute_first: Any, timeout: float | None = PATIENCE_S, **asked: Any) -> dict[str, Any]:
        """Undo what IPython does everywhere: it calls the session it runs in 0 when a range is asked of it."""
        reply: dict[str, Any] = super().history_helper(execute_first, timeout=timeout, **asked)
        content = reply["content"]
        content["history"] = [[entry[0] or asked.get("session"), *entry[1:]] for entry in content["history"]]
        return reply

    def execute_helper(
        self,
        code: str,
        timeout: float = PATIENCE_S,
        silent: bool = False,
        store_history: bool = True,
        stop_on_error: bool = True,
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """As the suite's own, which takes a message for lost that comes 0.1 s after the reply, as on a busy machine.

        What an earlier request has published may come late as well.
        """
        msg_id = self.kc.execute(code, silent=silent, store_history=store_history, stop_on_error=stop_on_error)
        reply = self.get_non_kernel_info_reply(timeout=timeout)
        validate_message(reply, "execute_reply", msg_id)
        published: list[dict[str, Any]] = []
        while not published or not _is_status(published[-1], "idle"):
            message = self.kc.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") == msg_id:
                published.append(message)
        for message in published:
            validate_message(message, message["msg_type"], msg_id)
        assert _is_status(published[0], "busy")
        return reply, [each for each in published[1:-1] if each["msg_type"] != "execute_input"]

    @classmethod
    def setUpClass(cls) -> None:
        """Left to the fixture `kernel`, which knows the kernelspec."""

    @classmethod
    def tearDownClass(cls) -> None:
        """Left to the fixture `kernel`."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def kernel(cls, request: pytest.FixtureRequest) -> Iterator[None]:
        cls.km, cls.kc = start_new_kernel(kernel_name=request.getfixturevalue(cls.fixture), startup_timeout=60)
        # behind the replies to all requests that were made while the kernel started
        cls.kc.execute_interactive("", timeout=PATIENCE_S)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jupyter_kernel_test, "TIMEOUT", PATIENCE_S)
            yield
        cls.kc.stop_channels()
        cls.km.shutdown_kernel()


def _is_status(message: dict[str, Any], state: str) -> bool:
    return bool(message["msg_type"] == "status" and message["content"]["execution_state"] == state)


def _is_of_worker_1(message: dict[str, Any]) -> bool:
    return bool(message["content"].get("data", {}).get("text/plain") == "worker 1: same output")


class TestProvisioner(_OnANode):
    __test__ = True
    fixture = "kernel_name"


class TestArgv(_OnANode):
    __test__ = True
    fixture = "argv_kernel_name"


@pytest.mark.nightly
@pytest.mark.system("sshd")
class TestProvisionerOverOpenSSH(_OnANode):
    __test__ = True
    fixture = "openssh_kernel_name"


@pytest.mark.nightly
@pytest.mark.system("sshd")
class TestArgvOverOpenSSH(_OnANode):
    __test__ = True
    fixture = "openssh_argv_kernel_name"


@pytest.mark.nightly
class TestSlice(_OnANode):
    __test__ = True
    fixture = "slice_kernel_name"

    def execute_helper(self, *args: Any, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Leave out what is shown of worker 1 below the kernel's own output."""
        reply, published = super().execute_helper(*args, **options)
        return reply, [each for each in published if not _is_of_worker_1(each)]


class _OnThisMachine(_Samples):
    kernel_name = "python3"


def test_a_kernel_on_this_machine_calls_its_session_0_as_well() -> None:
    result = unittest.TestResult()
    unittest.TestSuite([_OnThisMachine("test_history")]).run(result)
    assert result.errors == []
    [(where, why)] = result.failures
    assert "hist_access_type='range'" in str(where)
    assert "AssertionError: 0 != " in why


@pytest.mark.parametrize("fixture", mostly_nightly(["kernel_name", "argv_kernel_name"], count=1))
def test_a_new_subscriber_is_welcomed_first(fixture: str, request: pytest.FixtureRequest) -> None:
    manager = KernelManager(kernel_name=request.getfixturevalue(fixture))
    manager.start_kernel()
    client = manager.client()
    client.start_channels(hb=False)
    try:
        message = client.get_iopub_msg(timeout=60)
        assert message["msg_type"] == "iopub_welcome"
        assert message["content"] == {"subscription": ""}
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
