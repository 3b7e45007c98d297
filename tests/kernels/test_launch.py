"""What of this machine's environment is given to kernels on workers."""

from __future__ import annotations

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.kernels.launch import forwarded, forwarded_names, kernel_env
from jupyter_tpu.kernels.provisioner import TPUProvisioner

ENVIRONMENT = {"JPY_SESSION_NAME": "a.ipynb", "HF_TOKEN": "secret", "HF_HOME": "/cache", "PATH": "/bin"}


def test_the_notebooks_name_and_whole_names_are_forwarded_and_nothing_else() -> None:
    assert forwarded(ENVIRONMENT, []) == {"JPY_SESSION_NAME": "a.ipynb"}
    assert forwarded(ENVIRONMENT, ["HF_HOME", "NOT_SET"]) == {"JPY_SESSION_NAME": "a.ipynb", "HF_HOME": "/cache"}


def test_a_kernel_gets_the_name_of_its_node() -> None:
    assert kernel_env("my-node", ENVIRONMENT, []) == {"JPY_SESSION_NAME": "a.ipynb", "JPY_TPU_NODE": "my-node"}


def test_a_kernel_gets_the_users_language_by_a_name_that_other_programs_do_not_read() -> None:
    env = kernel_env("my-node", {"LANGUAGE": "zh_CN:en", "LANG": "de_DE.UTF-8"}, [])
    assert env == {"JPY_TPU_NODE": "my-node", "JPY_TPU_LANGUAGE": "zh_CN:en"}
    assert kernel_env("my-node", {"LANG": "de_DE.UTF-8"}, [])["JPY_TPU_LANGUAGE"] == "de_DE.UTF-8"


@pytest.mark.parametrize("name", ["HF_*", "*", "HF_HOME=/x", "", "HF HOME", "HF_HOME\n"])
def test_what_is_no_whole_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="can't be forwarded to kernels"):
        forwarded(ENVIRONMENT, [name])


def test_names_may_be_separated_by_commas_and_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_TPU_FORWARD_ENV", "A, B  C,")
    assert forwarded_names({"JUPYTER_TPU_FORWARD_ENV": "A, B  C,"}) == ["A", "B", "C"]
    assert TPUProvisioner().forward_env == ["A", "B", "C"]
    assert TPUProvisioner(forward_env=["D"]).forward_env == ["D"]
