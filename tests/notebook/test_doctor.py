"""The doctor judges what it is told of a worker: each fault by its name and with its fix."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from typing import Any

import pytest

from jupyter_tpu._version import __version__
from jupyter_tpu.diagnostics import FAULT, FIXES, OK, UNKNOWN, WARNING, Finding, summary
from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.notebook.doctor.checks import examine_agent, examine_environment, examine_machine
from jupyter_tpu.notebook.doctor.worker_facts import Facts
from jupyter_tpu.notebook.magics.doctor import as_json
from jupyter_tpu.notebook.node.this_worker import this_worker

JAX = {"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.42.1"}
STATUS = {"version": __version__, "uptime_s": 60.0, "kernels": []}
LOCK = {"path": "/tmp/libtpu_lockfile", "is_there": True, "is_held": True}
KERNEL = {"pid": 7, "user": "me", "command": "python", "kernel_id": "k", "notebook": "a.ipynb"}
WHO = {"holders": [KERNEL], "lock_file": LOCK, "reason": ""}
ACTIVITY = {
    "guard": {"state": "armed", "detail": "it can stop or delete my-node even while your own machine is off"},
    "rules": {"idle_after_s": 3600.0, "session_s": None},
    "ends_in_s": None,
}
NODE = {"as_of": 1.0, "data": {"runtime_version": "v2-alpha-tpuv5-lite"}}
WELL = Facts(
    worker=this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8"}),
    environ={},
    python=(3, 11),
    executable="/usr/bin/python3",
    pid=7,
    installed=("jax",),
    versions={"jax": JAX},
    requirements={"jax": ["libtpu==0.0.42.*; extra == 'tpu'"]},
    platforms={"jax": "tpu"},
    disks={"/home/me": (50 * 2**30, 100 * 2**30)},
    clock_ahead_s=0.4,
    answers={"status": STATUS, "who": WHO, "activity": ACTIVITY, "node": NODE},
)
ONE_OF_TWO = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-16"})
SILENT = WorkerUnreachable("The agent on this machine is not responding.")


def examined(facts: Facts) -> list[Finding]:
    return [*examine_agent(facts), *examine_environment(facts), *examine_machine(facts)]


def answering(**answers: Any) -> Facts:
    return replace(WELL, answers={**WELL.answers, **answers})


def test_nothing_is_wrong_with_a_worker_that_is_well() -> None:
    assert [each for each in examined(WELL) if each.state != OK] == []
    as_jax_leaves_it = {"TPU_SKIP_MDS_QUERY": "1", "XLA_FLAGS": "--xla_dump_to=/tmp/x"}
    assert [each for each in examined(replace(WELL, environ=as_jax_leaves_it)) if each.state != OK] == []
    assert summary(examined(WELL)).endswith(" ok")


@pytest.mark.parametrize(
    ("facts", "check", "state", "text", "fix"),
    [
        (answering(status={**STATUS, "version": "0.0.9"}), "agent", WARNING, "0.0.9", "tpu stop NODE"),
        (
            answering(who={**WHO, "holders": [{**KERNEL, "pid": 8}]}),
            "chips",
            WARNING,
            "a.ipynb",
            "%tpu release --pid 8",
        ),
        (answering(who={**WHO, "holders": []}), "lock file", WARNING, "is not visible", "lsof"),
        (answering(activity={**ACTIVITY, "guard": {"state": "cannot", "detail": "x"}}), "guard", WARNING, "x", "scope"),
        (
            answering(activity={**ACTIVITY, "guard": {"state": "off", "detail": "x"}}),
            "guard",
            WARNING,
            "off",
            "autostop",
        ),
        (
            answering(activity={**ACTIVITY, "rules": {"idle_after_s": None, "session_s": None}}),
            *("auto-stop", WARNING, "no auto-stop rule", "--idle 1h"),
        ),
        *(
            (
                answering(activity={**ACTIVITY, "guard": {"state": "off", "detail": "x"}, "has_rules": False}),
                *(check, UNKNOWN, "received n", "jupyter tpu autostop NODE"),
            )
            for check in ("guard", "auto-stop")
        ),
        (answering(node={}), "runtime version", UNKNOWN, "is unknown", "Jupyter server"),
        (
            answering(node={"data": {"runtime_version": "v2-alpha-tpuv6e"}}),
            *("runtime version", FAULT, "v2-alpha-tpuv6e is for", "Recreate"),
        ),
        (answering(activity={"nonsense": 1}), "guard", UNKNOWN, "can't read", "doctor NODE"),
        (replace(WELL, installed=()), "environment", WARNING, "no framework", "jax[tpu]"),
        (
            replace(WELL, versions={"jax": {**JAX, "libtpu": "0.0.51"}}),
            *("versions of JAX", FAULT, "libtpu 0.0.51", "jax"),
        ),
        (replace(WELL, versions={"jax": {**JAX, "libtpu": ""}}), "versions of JAX", FAULT, "missing", "jax[tpu]"),
        (replace(WELL, python=(3, 10)), "versions of JAX", WARNING, "Python 3.11", "env make"),
        (
            replace(WELL, versions={"jax": {**JAX, "jax": "9.9.9"}}, requirements={"jax": []}),
            *("versions of JAX", UNKNOWN, "has not been tested", ""),
        ),
        (replace(WELL, environ={"JAX_PLATFORMS": "cpu"}), "variables", FAULT, "JAX_PLATFORMS=cpu", "restart"),
        (replace(WELL, environ={"PJRT_DEVICE": "CPU"}), "variables", FAULT, "PJRT_DEVICE=CPU", "restart"),
        (
            replace(WELL, environ={"TPU_SKIP_MDS_QUERY": "1"}, worker=ONE_OF_TWO),
            *("variables", WARNING, "other workers of the slice", "restart"),
        ),
        (replace(WELL, environ={"XLA_FLAGS": "--xla_tpu_x=1"}), "variables", FAULT, "--xla_tpu_x", "LIBTPU_INIT_ARGS"),
        (replace(WELL, environ={"TPU_VISIBLE_CHIPS": "0"}), "variables", WARNING, "to these chips", "restart"),
        (replace(WELL, platforms={"jax": "cpu"}), "fallback", FAULT, "on the cpu", "%tpu_init"),
        (replace(WELL, worker=this_worker({})), "node", FAULT, "not run on a TPU node", "kernel menu"),
        (replace(WELL, disks={"/tmp": (2**30, 2**40)}), "disk", FAULT, "1.0 of 1024.0 GiB", "Delete"),
        (replace(WELL, disks={"/tmp": (2**35, 2**40)}), "disk", WARNING, "32.0 of", "full soon"),
        (replace(WELL, read_only=["/home/me"]), "disk", FAULT, "/home/me is not writable", "recreate the"),
        (replace(WELL, clock_ahead_s=-90.0), "clock", WARNING, "behind", "chrony"),
        (replace(WELL, clock_ahead_s=None), "clock", UNKNOWN, "did not return the time", ""),
    ],
)
def test_each_fault_is_found_with_its_fix(facts: Facts, check: str, state: str, text: str, fix: str) -> None:
    found = [each for each in examined(facts) if each.check == check and each.state == state]
    assert found, examined(facts)
    assert text in found[0].text
    assert fix in found[0].fix
    assert fix or not found[0].fix


def test_two_frameworks_in_one_environment_are_one_too_many() -> None:
    torch = {"torch_xla": "2.9.0", "torch": "2.9.0", "libtpu": "0.0.21"}
    facts = replace(
        WELL,
        installed=("jax", "torch_xla"),
        versions={"jax": JAX, "torch_xla": torch},
        requirements={"jax": [], "torch_xla": []},
    )
    assert any(each.check == "environment" and "PyTorch/XLA" in each.text for each in examined(facts))


def test_a_silent_agent_is_a_fault_and_all_else_is_still_looked_at() -> None:
    findings = examined(replace(WELL, answers=dict.fromkeys(WELL.answers, SILENT)))
    assert {each.check: each.state for each in findings}["agent"] == FAULT
    assert {each.check: each.state for each in findings}["chips"] == UNKNOWN
    assert {each.check: each.state for each in findings}["versions of JAX"] == OK


def test_an_emulated_worker_may_compute_on_the_cpu() -> None:
    emulated = this_worker({"TPU_ACCELERATOR_TYPE": "v5litepod-8", "JUPYTER_TPU_EMULATED": "1"})
    facts = replace(
        WELL,
        worker=emulated,
        environ={"JAX_PLATFORMS": "cpu"},
        platforms={"jax": "cpu"},
        versions={"jax": {**JAX, "libtpu": ""}},
    )
    assert [each for each in examined(facts) if each.state != OK] == []


@pytest.mark.parametrize("text", ["0," * 5000, "\x1b[2J\u202e\n\ud800<b>"])
def test_json_for_programs_is_whole_whatever_was_found(text: str) -> None:
    finding = Finding(check="variables", state=WARNING, text=text)
    told = as_json([finding])
    page = html.unescape(told.to_html()).removeprefix("<pre>").removesuffix("</pre>")
    assert json.loads(str(told)) == json.loads(page) == [finding.to_json()]
    assert "<b>" not in told.to_html()


def test_a_finding_travels_as_json() -> None:
    finding = Finding(check="disk", state=FAULT, text="It is full.", fix="Delete something.")
    assert Finding.from_json(finding.to_json()) == finding
    with pytest.raises(ValueError, match="not a valid state"):
        Finding.from_json({**finding.to_json(), "state": "fine"})


@pytest.mark.parametrize("code", FIXES)
def test_a_fix_names_the_node_in_a_terminal(code: str) -> None:
    found = Finding(check="x", state=FAULT, text="y").fixed_by(code, pid=17)
    sent = Finding.from_json(found.to_json())
    assert "{" not in sent.fix
    shown = sent.in_terminal("my-node --zone z-a").fix
    assert "my-node --zone z-a" in shown
    assert not any(word in shown for word in ("NODE", "%tpu", "own machine", "{"))


def test_a_fix_of_an_older_agent_is_shown_as_it_is() -> None:
    old = {"check": "x", "state": FAULT, "text": "y", "fix": "On your own machine: jupyter tpu autostop NODE"}
    assert Finding.from_json(old).in_terminal("my-node") == Finding(**old)


def test_values_from_a_worker_are_no_templates() -> None:
    sent = Finding(check="x", state=FAULT, text="y").fixed_by("end-process", pid="{node}{0}").to_json()
    assert "--pid {node}{0}` ends" in Finding.from_json(sent).in_terminal("my-node").fix
