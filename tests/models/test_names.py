"""Names are safe by construction: what breaks the API's rules is refused at the edge."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import BadInput, all_errors, error_from_json
from jupyter_tpu.models import NodeName, NodeSpec

BAD_IDS = ["", "-a", "a-", "A", "1a", "a b", "a;rm", "$(x)", "a\n", "../x", "<b>", "é", "a" * 64, "-rf", "a'b"]


@pytest.mark.parametrize("node_id", BAD_IDS)
def test_a_bad_node_id_is_refused_with_the_rule(node_id: str) -> None:
    with pytest.raises(BadInput, match="is not a valid node name") as refused:
        NodeName(project="my-project", zone="us-central1-a", node_id=node_id)
    assert "lower-case letters" in refused.value.hint


@pytest.mark.parametrize(
    "name", ["", "x", "projects/p/locations/z", "projects/my-project/locations/us-central1-a/nodes/a/b", "a" * 999]
)
def test_a_bad_full_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        NodeName.parse(name)


@given(st.text(max_size=80), st.text(max_size=40), st.text(max_size=80))
def test_an_accepted_name_means_nothing_to_a_shell_or_a_page(project: str, zone: str, node_id: str) -> None:
    try:
        name = NodeName(project=project, zone=zone, node_id=node_id)
    except BadInput:
        return
    assert shlex.quote(name.node_id) == name.node_id
    assert shlex.quote(name.zone) == name.zone
    assert not set("<>&\"'\n") & set(str(name))


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
def test_a_good_name_survives_its_text(node_id: str) -> None:
    name = NodeName(project="my-project", zone="us-central1-a", node_id=node_id)
    assert NodeName.parse(str(name)) == name
    spec = NodeSpec(name=name, accelerator_type="v4-8", runtime_version="r", spot=True, labels={"a": "b"})
    assert NodeSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("code", all_errors())
def test_an_error_survives_its_json(code: str) -> None:
    error = all_errors()[code]("failed", exists="exists", hint="hint", raw="raw")
    again = error_from_json(error.to_json())
    assert (type(again), again.to_json()) == (type(error), error.to_json())
