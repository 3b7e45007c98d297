"""What can be the id of a project."""

from __future__ import annotations

import pytest

from jupyter_tpu.errors import BadInput
from jupyter_tpu.money.project_ids import check_project


@pytest.mark.parametrize("project", ["demo-project", "example.com:lab", "p-1"])
def test_a_project_has_an_id(project: str) -> None:
    check_project(project)


@pytest.mark.parametrize("project", ["", "x y/../z", "123456789012", "A-Project", "ab", "../x", "-x-x", "p" * 70])
def test_what_can_be_no_id_of_a_project_is_refused(project: str) -> None:
    with pytest.raises(BadInput, match="is not a valid project ID") as refused:
        check_project(project)
    assert "not the number" in refused.value.hint
