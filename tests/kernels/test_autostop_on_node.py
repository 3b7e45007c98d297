"""The guard on a worker ends its own node by the rules it was given, without anybody's help."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_processes import kill_agent
from jupyter_client.session import Session

from jupyter_tpu.agent.autostop.daemon import AutostopDaemon
from jupyter_tpu.agent.autostop.node_api import API_VARIABLE, CannotEnd, OwnNode
from jupyter_tpu.agent.preemption.notices import Notices
from jupyter_tpu.autostop import Activity
from jupyter_tpu.errors import BadInput
from jupyter_tpu.link import Link
from jupyter_tpu.models import Node

A_LONG_TIME = {"idle_after_s": 3600, "unattended_after_s": 7200, "session_s": None, "action": "delete"}
A_SECOND = {"idle_after_s": 1, "session_s": None, "action": "delete"}
UNATTENDED_S = 4
WARNED_S = 16  # the second half of it is long enough to be seen by a test that is not scheduled for some seconds
UNATTENDED = {"idle_after_s": 1, "unattended_after_s": UNATTENDED_S, "session_s": None, "action": "delete"}
PATIENCE_S = 90
TRAIN = """\
import emulated_tpu, os, threading

def train():
    while not os.path.exists({end!r}):
        sum(range(99_999))

emulated_tpu.take()
threading.Thread(target=train).start()
"""


async def comes_true(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - a ledger answers questions, it never calls
            await asyncio.sleep(0.1)


async def activity_that(link: Link, is_wanted: Callable[[dict[str, Any]], bool], **params: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not is_wanted(found := await link.call("activity", params)):  # noqa: ASYNC110 - agents answer, they never call
            await asyncio.sleep(0.1)
    return found


async def test_an_idle_node_is_ended_by_its_guard_while_nobody_is_connected(
    cloud: Any, make_node: Any, open_link: Any
) -> None:
    node = await make_node("forgotten")
    link = await open_link(node)
    await link.call("set_brakes", {"rules": A_LONG_TIME, "revision": 1})
    armed = await activity_that(link, lambda found: found["guard"]["state"] == "armed")
    assert f"it can stop or delete {node.name.node_id} " in armed["guard"]["detail"]

    await link.call("set_brakes", {"rules": A_SECOND, "revision": 2})
    await link.close()

    await comes_true(lambda: not cloud.is_billed(node))


@pytest.mark.nightly
async def test_a_guard_that_could_open_no_file_for_a_while_still_ends_the_node(
    cloud: Any, make_node: Any, open_link: Any
) -> None:
    node = await make_node("no-files")
    link = await open_link(node)
    await link.call("set_brakes", {"rules": {**A_SECOND, "idle_after_s": 10}, "revision": 1})
    agent = link.agent["pid"]
    await link.close()
    _, most = before = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    resource.prlimit(agent, resource.RLIMIT_NOFILE, (3, most))
    await asyncio.sleep(4)  # the guard looks each second
    resource.prlimit(agent, resource.RLIMIT_NOFILE, before)
    await comes_true(lambda: not cloud.is_billed(node))


async def test_the_guard_says_at_once_whether_a_rule_ends_the_node(node: Node, open_link: Any) -> None:
    link = await open_link(node)
    none = {"idle_after_s": None, "session_s": None, "action": "stop"}
    told = [
        await link.call("set_brakes", {"rules": rules, "revision": 1}) for rules in (A_LONG_TIME, none, A_LONG_TIME)
    ]
    assert [each["guard"]["state"] == "off" for each in told] == [False, True, False]
    await link.call("set_brakes", {"rules": none, "revision": 1})


async def test_the_guards_rules_outlive_a_killed_agent(cloud: Any, make_node: Any, open_link: Any) -> None:
    node = await make_node("killed-agent")
    link = await open_link(node)
    await link.call("set_brakes", {"rules": {**A_LONG_TIME, "session_s": 7200}, "revision": 7, "ready_for_s": 100})
    home = cloud.home_of(node)
    assert kill_agent(home) == 1
    found = await link.call("activity")
    assert (found["rules"], found["revision"]) == ({**A_LONG_TIME, "session_s": 7200}, 7)
    assert found["ready_for_s"] >= 100

    await link.call("set_brakes", {"rules": {**A_LONG_TIME, "session_s": 101}, "revision": 8})
    await link.close()
    kill_agent(home)
    await comes_true(lambda: not cloud.is_billed(node))


async def test_a_busy_cell_is_never_stopped_by_the_idle_rule(
    cloud: Any, make_node: Any, open_link: Any, tmp_path: Path
) -> None:
    node = await make_node("busy")
    link = await open_link(node)
    await run_cell(link, f"import os, time\nwhile not os.path.exists({str(tmp_path / 'done')!r}): time.sleep(0.05)")
    await link.call("set_brakes", {"rules": A_SECOND, "revision": 1})

    # nobody has done anything for many times as long as a node may be idle
    found = await activity_that(link, lambda found: (found["sources"]["human"]["age_s"] or 0) > 4)
    assert (found["verdict"], found["sources"]["execution"]["state"]) == ("busy", "active")
    assert cloud.is_billed(node)

    (tmp_path / "done").touch()
    await comes_true(lambda: not cloud.is_billed(node))


async def run_cell(link: Link, code: str, kernel_id: str = "k") -> Any:
    """Start a kernel and a cell in it; the stream that has asked."""
    await link.call("start_kernel", {"kernel_id": kernel_id, "key": "secret"})
    stream = link.attach(kernel_id, from_seq=0, on_message=lambda *_: None)
    session = Session(key=b"secret")
    request = session.msg("execute_request", {"code": code, "silent": False, "allow_stdin": False})
    stream.send("shell", [b"front-end", *session.serialize(request)])
    await activity_that(link, lambda found: found["sources"]["execution"]["state"] == "active")
    return stream


@pytest.mark.nightly
async def test_a_silent_cell_with_idle_chips_and_nobody_connected_ends_the_node_in_time(
    cloud: Any, make_node: Any, open_link: Any
) -> None:
    node = await make_node("unattended")
    link = await open_link(node)
    await run_cell(link, "while True: pass")
    # while a client follows the kernel the cell is attended, and nothing ends the node
    attended = await link.call("set_brakes", {"rules": UNATTENDED, "revision": 1})
    await activity_that(link, lambda found: (found["sources"]["human"]["age_s"] or 0) > 2 * UNATTENDED_S)
    assert cloud.is_billed(node)

    # a server that has no page open says so
    await link.call("set_brakes", {"rules": UNATTENDED | {"unattended_after_s": WARNED_S}, "revision": 2})
    left = await link.call("activity", {"pages": 0})
    assert (attended["ends_in_s"], attended["rules"]) == (None, UNATTENDED)
    assert (left["verdict"], left["ends_why"]) == ("busy", "idle")
    assert left["ends_in_s"] == pytest.approx(WARNED_S, abs=1)
    assert "but the chips are idle, there is no output, and no client has been connected" in left["reason"]
    told = await activity_that(link, lambda found: found["is_warning"])
    assert told["ends_in_s"] <= WARNED_S / 2
    assert cloud.is_billed(node)
    await link.close()
    await comes_true(lambda: not cloud.is_billed(node))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "code", "pages", "source"),
    [
        ("computing", "import emulated_tpu\nemulated_tpu.take()\nwhile True: sum(range(99_999))", 0, "accelerator"),
        ("talking", "import time\nwhile True: print('.'); time.sleep(0.2)", 0, "output"),
        ("attended", "while True: pass", 1, "connection"),
    ],
    ids=["chip use", "output", "a page"],
)
async def test_a_cell_is_not_unattended_with(
    cloud: Any, make_node: Any, open_link: Any, name: str, code: str, pages: int, source: str
) -> None:
    node = await make_node(name)
    link = await open_link(node)
    await run_cell(link, code)
    await activity_that(link, lambda found: found["sources"][source]["state"] == "active", pages=pages)
    await link.call("set_brakes", {"rules": UNATTENDED, "revision": 1})

    found = await activity_that(
        link, lambda found: (found["sources"]["human"]["age_s"] or 0) > 2 * UNATTENDED_S, pages=pages
    )
    assert (found["verdict"], found["ends_in_s"], found["is_warning"]) == ("busy", None, False)
    assert cloud.is_billed(node)


@pytest.mark.nightly
async def test_a_kernel_that_died_and_starts_with_nobody_connected_counts_as_idle(
    cloud: Any, make_node: Any, open_link: Any
) -> None:
    node = await make_node("died")
    link = await open_link(node)
    stream = await run_cell(link, "while True: pass")
    startup = cloud.home_of(node) / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "startup.py").write_text("import time; time.sleep(600)")  # so that it stays in its start
    await link.call("restart_kernel", {"kernel_id": "k", "key": "secret"})
    stream.close()
    state = (await link.call("kernel_info", {"kernel_id": "k"}))["execution_state"]
    found = await link.call("activity", {"pages": 0})
    assert state == "starting"
    assert (found["verdict"], found["sources"]["execution"]["state"]) == ("idle", "quiet")
    await link.call("set_brakes", {"rules": A_SECOND, "revision": 1})
    await link.close()
    await comes_true(lambda: not cloud.is_billed(node))


async def test_a_kept_node_is_not_ended_before_its_time(cloud: Any, node: Node, open_link: Any) -> None:
    link = await open_link(node)
    await link.call("set_brakes", {"rules": {**A_LONG_TIME, "session_s": 600}, "revision": 1, "ready_for_s": 500})
    kept = await link.call("keep", {"for_s": 7200})
    assert kept["ends_in_s"] == pytest.approx(7200, abs=60)
    assert (kept["ends_why"], kept["keep"]["while_busy"]) == ("session", False)
    taken_back = await link.call("keep", {})
    assert taken_back["ends_in_s"] < 100
    off = {"idle_after_s": None, "session_s": None, "action": "stop"}
    assert not (await link.call("set_brakes", {"rules": off, "revision": 2}))["ends_why"]


@pytest.mark.parametrize("params", [{"for_s": "long"}, {"until": float("1e300")}, {"while_busy": 1}], ids=str)
async def test_a_keep_that_makes_no_sense_is_refused(node: Node, open_link: Any, params: dict[str, Any]) -> None:
    link = await open_link(node)
    with pytest.raises(BadInput):
        await link.call("keep", params)


async def test_who_holds_the_chips_is_seen(cloud: Any, node: Node, open_link: Any, tmp_path: Path) -> None:
    link = await open_link(node)
    # it is unknown where a busy machine has not answered in time
    await activity_that(link, lambda found: found["sources"]["accelerator"]["state"] == "quiet")
    notebook = {"JPY_SESSION_NAME": "/home/me/course/train.ipynb"}
    await link.call("start_kernel", {"kernel_id": "holder", "key": "secret", "env": notebook})
    stream = link.attach("holder", from_seq=0, on_message=lambda *_: None)
    session = Session(key=b"secret")

    def run(code: str) -> None:
        request = session.msg("execute_request", {"code": code, "silent": False, "allow_stdin": False})
        stream.send("shell", [b"front-end", *session.serialize(request)])

    end = tmp_path / "end"
    run(TRAIN.format(end=str(end)))
    detached = await activity_that(
        link, lambda found: found["sources"]["execution"]["state"] == "quiet" and "computes" in str(found["sources"])
    )
    assert (detached["verdict"], detached["sources"]["accelerator"]["state"]) == ("busy", "active")
    await asyncio.to_thread(end.touch)
    holds = "train.ipynb has the chips open but is idle"
    await activity_that(link, lambda found: found["sources"]["accelerator"]["detail"] == holds)
    await link.call("forget_kernel", {"kernel_id": "holder"})


class Blind:
    """A watch that can see nothing."""

    async def observe(self) -> Activity:
        raise OSError("too many open files")

    def note_human_act(self) -> None: ...

    def to_json(self) -> dict[str, Any]:
        return {}

    def load(self, state: Any) -> None: ...


async def test_a_node_is_kept_while_it_is_busy_and_while_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    guard = AutostopDaemon(tmp_path / "rules", Blind(), Notices(None))  # type: ignore[arg-type]
    await guard.set_rules({"rules": {**A_LONG_TIME, "session_s": 7200}, "revision": 1})
    await guard.extend({"while_busy": True})
    turns = asyncio.create_task(guard.run())
    await comes_true(lambda: guard.describe()["guard"]["state"] == "cannot")  # the end of a turn
    turns.cancel()
    assert guard.describe()["verdict"] == "unknown"
    assert guard.describe()["keep"]["while_busy"]


def test_a_machine_without_a_metadata_server_says_so() -> None:
    with pytest.raises(CannotEnd, match="no metadata server"):
        OwnNode({"GCE_METADATA_HOST": "127.0.0.1:1"}).check()


@pytest.mark.parametrize("api", ["http://tpu.googleapis.com/", "https://tpu.googleapis.com.invalid/"])
async def test_no_token_is_sent_where_somebody_else_could_read_it(api: str, cloud: Any, node: Node) -> None:
    port = (cloud.home_of(node).parent / "metadata_port").read_text()
    environ = {"GCE_METADATA_HOST": f"127.0.0.1:{port}", API_VARIABLE: api}
    with pytest.raises(CannotEnd, match="no token is sent"):
        await asyncio.to_thread(OwnNode(environ).check)


async def test_a_notebook_keeps_its_node_by_a_magic(node: Node, open_link: Any) -> None:
    link = await open_link(node)
    await link.call("start_kernel", {"kernel_id": "notebook", "key": "secret"})
    stream = link.attach("notebook", from_seq=0, on_message=lambda *_: None)
    session = Session(key=b"secret")
    request = session.msg("execute_request", {"code": "%tpu extend 5h", "silent": False, "allow_stdin": False})
    stream.send("shell", [b"front-end", *session.serialize(request)])
    kept = await activity_that(link, lambda found: (found["keep"]["for_s"] or 0) > 4 * 3600)
    assert kept["keep"]["for_s"] == pytest.approx(5 * 3600, abs=120)
    await link.call("keep", {})
    await link.call("forget_kernel", {"kernel_id": "notebook"})
