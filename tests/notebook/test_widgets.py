"""`TpuMonitor`, `IdleTimer` and `QuotaAndCredit`: what their pages are given, and what is shown without a live page."""

from __future__ import annotations

import io
import json
import re
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest
from pseudo_language import english_lines, write_language

from jupyter_tpu.agent.archive import agent_archive
from jupyter_tpu.errors import WorkerUnreachable
from jupyter_tpu.metrics import Chip, Core, Holder, Host, Sample
from jupyter_tpu.notebook.widgets.feed import Feed, update_interval_s
from jupyter_tpu.notebook.widgets.idle import IDLE, act
from jupyter_tpu.notebook.widgets.monitor import MONITOR
from jupyter_tpu.notebook.widgets.quota import QUOTA
from jupyter_tpu.notebook.widgets.view import SnapshotReader

GIB = 2**30
CORES = tuple(Core(core=core, chip=core // 2, hbm_used_bytes=core * GIB, hbm_total_bytes=16 * GIB) for core in range(4))
SAMPLE = Sample(
    at=1000.0,
    state="measured",
    chips=(Chip(chip=0, duty_percent=78.71), Chip(chip=1)),
    cores=CORES,
    unknown={"tensorcore_percent": "needs libtpu's SDK on the worker", "queued": "libtpu does not report it"},
    host=Host(cpus=96, cpu_percent=12.5),
    holders=(Holder(pid=7, notebook="a.ipynb", is_own_user=True), Holder(pid=8, user="eve", command="python train.py")),
)
HISTORY = {
    "at": [998.04, 999.0],
    "duty_percent": {"0": [None, 50.04], "1": [1.0, 2.0]},
    "hbm_used_bytes": {"0": [0, GIB], "1": [GIB, GIB], "2": [None, GIB], "3": [0, 0]},
}


class Agent:
    """Answers as an agent does, or does not."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((method, dict(params)))
        if method not in self.answers:
            raise WorkerUnreachable("It does not answer.", hint="Wait.")
        return dict(self.answers[method])


def metrics(history: Any = None) -> dict[str, Any]:
    worker = {"hostname": "t1v-n-w-0", "accelerator_type": "v3-8"}
    return {"metrics": {"worker": worker, "interval_s": 1.0, "sample": SAMPLE.to_json(), "history": history}}


def test_the_monitor_gives_its_page_what_is_known_in_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_TPU_NODE", "my-node")
    picture = SnapshotReader(MONITOR, Agent(metrics()).ask).snapshot()
    assert picture["problem"] == ""
    data = dict(picture["data"])
    columns, cores = data.pop("columns"), data.pop("cores")
    assert ["hbm_bandwidth_percent", "HBM bandwidth", "percent"] in columns
    assert ["idle_s", "Idle", "seconds"] in columns
    names = ["core", "chip", *(name for name, _, _ in columns)]
    assert [dict(zip(names, core, strict=True)) for core in cores] == [asdict(core) for core in CORES]
    assert data == {
        "at": 1000.0,
        "type": "v3-8",
        "place": "",
        "node": "my-node",
        "state": "measured",
        "reason": "",
        "duty_per": "chip",
        "chips": [[0, 78.71], [1, None]],
        "unknown": [
            "TensorCore: unknown, needs libtpu's SDK on the worker",
            "queued: unknown, libtpu does not report it",
        ],
        "machine": {
            "cpus": 96,
            "cpu_percent": 12.5,
            "memory_used_bytes": None,
            "memory_total_bytes": None,
            "disk_used_bytes": None,
            "disk_total_bytes": None,
        },
        "holders": ["a.ipynb (pid 7)", "python train.py (pid 8, user eve)"],
    }


def test_a_worker_of_a_slice_says_that_it_is_one_of_several() -> None:
    answer = metrics()["metrics"]
    answer["worker"]["accelerator_type"] = "v5litepod-16"
    data = SnapshotReader(MONITOR, Agent({"metrics": answer}).ask).snapshot()["data"]
    assert data["place"] == "1 of 4 workers; the TPU panel shows all workers."


def test_a_page_that_asks_for_it_gets_the_history_once() -> None:
    agent = Agent(metrics(HISTORY))
    looker = SnapshotReader(MONITOR, agent.ask)
    whole = looker.snapshot(whole=True)
    assert whole["data"]["history"] == {
        "at": [998.0, 999.0],
        "duty": {"0": [None, 50.0], "1": [1.0, 2.0]},
        "hbm": {"0": [3.1, 6.2], "1": [None, 3.1]},
    }
    agent.answers = {}
    assert "history" not in looker.snapshot()["data"]


def test_what_was_seen_last_stays_with_the_reason_why_it_is_old() -> None:
    agent = Agent(metrics())
    looker = SnapshotReader(MONITOR, agent.ask)
    before = looker.snapshot()
    agent.answers = {}
    assert looker.snapshot() == {**before, "problem": "It does not answer. Wait."}
    agent.answers = {"metrics": {"sample": {"state": "splendid"}}}
    assert "can't read" in looker.snapshot()["problem"]


@pytest.mark.parametrize("view", [MONITOR, IDLE, QUOTA])
@pytest.mark.parametrize("answer", [{}, {"sample": None}, {"data": [], "as_of": "soon"}, {"sources": 5}])
def test_no_answer_of_an_agent_ends_a_widget(view: Any, answer: Any) -> None:
    picture = SnapshotReader(view, Agent(dict.fromkeys(("metrics", "activity", "told"), answer)).ask).snapshot()
    assert picture["problem"] or picture["data"]


@pytest.mark.parametrize(
    ("wish", "asked", "says"),
    [
        ({"for_s": 3600, "at": 990.0}, {"for_s": 3590.0}, "The node keeps running for 59 min."),
        ({"for_s": 3600, "at": 2000.0}, {"for_s": 3600.0}, "The node keeps running for 1 h."),
        ({"for_s": 1e9, "at": 1000.0}, {"for_s": 30 * 86400.0}, "The node keeps running for 720 h."),
        ({"for_s": 600, "at": 100.0}, None, "received this request only after 15 min. Nothing was done."),
        (
            {"while_busy": True, "at": 999.0},
            {"while_busy": True},
            "The node keeps running until the current cell ends.",
        ),
        ({"while_busy": True, "at": 900.0}, None, "received this request only after 100 s. Nothing was done."),
        ({"off": True, "at": 999.0}, {}, "Extension cancelled."),
    ],
)
def test_a_button_means_the_moment_at_which_it_was_clicked(wish: Any, asked: Any, says: str) -> None:
    agent = Agent({"keep": {}})
    assert says in act(agent.ask, wish, 1000.0)
    assert agent.asked == ([] if asked is None else [("keep", asked)])


ACTIVITY = {
    "sources": {"execution": {"state": "active", "age_s": 0, "detail": ""}},
    **{"verdict": "busy", "reason": "", "ends_in_s": None, "ends_why": "", "is_warning": False, "has_rules": True},
    "rules": {"idle_after_s": 3600, "session_s": None, "action": "stop"},
    "keep": {"for_s": None, "while_busy": False},
    "guard": {"state": "armed", "detail": ""},
}
DUE = {**ACTIVITY, "reminder": {"for_s": 26 * 3600.0, "days": 1}}


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"activity": DUE, "told": {"as_of": 5.0, "data": {"nodes": [{"usd": 249.6}]}}}, "Its cost so far is $249.60."),
        ({"activity": DUE, "told": {"as_of": 5.0, "data": {"nodes": []}}}, "Its cost is unknown."),
        ({"activity": DUE, "told": {}}, "Its cost is unknown."),
        ({"activity": DUE}, "Its cost is unknown."),
    ],
    ids=["told", "not in the ledger", "nobody told", "no answer"],
)
def test_the_idle_timer_reminds_of_a_day_that_was_billed_without_a_human_act(answers: Any, says: str) -> None:
    text = SnapshotReader(IDLE, Agent(answers).ask).snapshot()["data"]["reminder"]
    assert text == (
        f"This node has been billed for 26 h without any known activity from you. {says} "
        "Keep it running: `%tpu extend`. Stop it: `%tpu stop`."
    )


@pytest.mark.parametrize("activity", [ACTIVITY, {**ACTIVITY, "reminder": None}], ids=["an older agent", "nothing due"])
def test_an_idle_timer_without_a_reminder_asks_for_no_cost(activity: Any) -> None:
    agent = Agent({"activity": activity})
    assert SnapshotReader(IDLE, agent.ask).snapshot()["data"]["reminder"] == ""
    assert agent.asked == [("activity", {})]


def test_the_idle_timer_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_TPU_NODE", "my-node")
    assert SnapshotReader(IDLE, Agent({"activity": ACTIVITY}).ask).snapshot()["data"]["node"] == "my-node"


@pytest.mark.parametrize("wish", [{}, {"for_s": "1h"}, {"for_s": float("nan")}, {"delete": True}])
def test_any_other_wish_of_a_page_does_nothing(wish: Any) -> None:
    agent = Agent({"keep": {}})
    picture = SnapshotReader(IDLE, agent.ask).snapshot(acts=[{"at": time.time(), **wish}])
    assert "Nothing was done." in picture["heard"][0]["text"]
    assert "keep" not in dict(agent.asked)


def test_a_page_hears_what_became_of_its_wish() -> None:
    picture = SnapshotReader(IDLE, Agent({}).ask).snapshot(acts=[{"id": "x1", "off": True, "at": 1e12}])
    assert picture["heard"] == [{"id": "x1", "text": "It does not answer. Wait."}]


def test_a_wish_has_the_patience_of_a_call_that_changes_something() -> None:
    reading, requesting = Agent({"activity": ACTIVITY}), Agent({"keep": {}})
    picture = SnapshotReader(IDLE, reading.ask, requesting.ask).snapshot(acts=[{"at": time.time(), "for_s": 3600}])
    assert picture["heard"][0]["text"].startswith("The node keeps running for ")
    assert ([method for method, _ in requesting.asked], "keep" in dict(reading.asked)) == (["keep"], False)


def test_parts_of_quota_and_credit_are_told_or_said_to_be_unknown() -> None:
    limit = {
        "label": "v5e",
        "location": "us-central1-a",
        "limit": 32,
        "is_unlimited": False,
        "used": 8,
        "unit": "chips",
    }
    view = {"error": None, "is_complete": False, "limits": [limit]}

    def ask(_method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"as_of": 5.0, "data": view} if params["kind"] == "quota" else {}

    parts = {part["title"]: part for part in SnapshotReader(QUOTA, ask).snapshot()["data"]["parts"]}
    assert parts["Quota"] == {
        "title": "Quota",
        "as_of": 5.0,
        "lines": ["Partial: some quota usage was not visible, so less may be free."],
        "rows": [("v5e · us-central1-a", "8 of 32 chips", 0.25)],
    }
    assert parts["Budgets"]["as_of"] is None
    assert "unknown" in parts["Budgets"]["lines"][0]


# -- the thread


@pytest.mark.parametrize(
    ("every_s", "silent_s", "pace"), [(1.0, 0.0, 1.0), (1.0, 120.0, 2.0), (1.0, 1e6, 5.0), (15.0, 1e6, 15.0)]
)
def test_a_feed_that_no_page_is_heard_of_goes_slower(every_s: float, silent_s: float, pace: float) -> None:
    assert update_interval_s(every_s, silent_s) == pace


class Seen:
    """What a feed was asked to show."""

    def __init__(self) -> None:
        self.looks = 0
        self.acts: list[Mapping[str, Any]] = []
        self._news = threading.Condition()

    def look(self, whole: bool, acts: list[Mapping[str, Any]]) -> None:
        with self._news:
            self.looks += 1
            self.acts += acts
            self._news.notify_all()

    def wait_for(self, is_so: Any) -> None:
        with self._news:
            assert self._news.wait_for(is_so, 60)


def feed_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jupyter-tpu-widget"]


def test_silence_ends_the_feed_of_an_idle_kernel_until_a_page_speaks_again() -> None:
    seen = Seen()
    feed = Feed(seen.look, 0.001, lambda: False, silence_s=0.0)
    for _ in range(2):
        feed.notify()
        for thread in feed_threads():
            thread.join(60)
        assert not feed.is_running


def test_a_busy_kernel_is_fed_on_and_its_pages_wishes_are_done_until_it_is_closed() -> None:
    seen = Seen()
    feed = Feed(seen.look, 0.001, lambda: True, silence_s=0.0)
    feed.notify()
    seen.wait_for(lambda: seen.looks > 5)
    feed.notify(act={"id": "1"})
    seen.wait_for(lambda: seen.acts)
    assert seen.acts == [{"id": "1"}]
    feed.close()
    for thread in feed_threads():
        thread.join(60)
    feed.notify(whole=True)
    assert not feed.is_running


# -- in a shell


def test_all_widgets_come_by_a_star() -> None:
    names: dict[str, Any] = {}
    exec("from jupyter_tpu import *", names)
    assert {name for name in names if name[0] != "_"} == {"IdleTimer", "QuotaAndCredit", "TpuMonitor"}


SHOW = "from jupyter_tpu import IdleTimer, QuotaAndCredit, TpuMonitor\ndisplay({}())"
WITHOUT = "import sys; sys.modules['anywidget'] = None"


@pytest.mark.parametrize("name", ["TpuMonitor", "IdleTimer", "QuotaAndCredit"])
def test_without_anywidget_a_picture_says_how_to_get_the_live_one(run_cells: Any, name: str) -> None:
    run = run_cells(WITHOUT, SHOW.format(name))
    assert run.succeeded, run.text
    assert "as of 2" in run.text
    assert run.text.count("not started by an agent") == 1
    assert "%pip install anywidget" in run.text


def test_a_live_widget_carries_a_picture_for_front_ends_that_show_none(run_cells: Any) -> None:
    run = run_cells(
        "from jupyter_tpu import TpuMonitor; monitor = TpuMonitor(); bundle = monitor._repr_mimebundle_()",
        "print(*sorted(bundle)); print(bundle['text/html'])",
        "print([name for name in monitor.live.keys if not name.startswith('_')])",
        "monitor.close(); print(*sorted(monitor._repr_mimebundle_()))",
    )
    assert run.succeeded, run.text
    assert "application/vnd.jupyter.widget-view+json text/html text/plain" in run.text
    assert (
        "This is a snapshot of the widget. Live widgets need a trusted notebook and anywidget in the front end."
        in run.text
    )
    assert "<p><strong>TPU monitor</strong>" in run.text
    assert "['layout', 'picture', 'tabbable', 'tooltip']" in run.text
    assert run.text.rstrip().endswith("text/html text/plain")


def test_what_pages_run_and_wear_is_sent_to_the_worker() -> None:
    with zipfile.ZipFile(io.BytesIO(agent_archive().content)) as archive:
        sent = {name.removeprefix("jupyter_tpu/notebook/widgets/") for name in archive.namelist()}
    scripts = {f"{name}.js" for name in ("frame", "idle", "monitor", "quota")}
    assert {*scripts, "widgets.css", "__init__.py"} <= sent


# -- the user's language

NOT_ENGLISH = (r"ａｓ ｏｆ [^)]*", r"my-node|HBM|a\.ipynb|python train\.py|\beve\b|\bmin\b", r"\b[a-z]+_[a-z_]+\b")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_language(tmp_path_factory.mktemp("locale"))


def test_what_a_widget_tells_its_page_is_in_the_users_language(
    language: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**language, "JPY_TPU_NODE": "my-node"}.items():
        monkeypatch.setenv(name, value)
    monitor = SnapshotReader(MONITOR, Agent(metrics()).ask).snapshot()["data"]
    idle = SnapshotReader(IDLE, Agent({"activity": DUE, "told": {}}).ask)
    quota = SnapshotReader(QUOTA, Agent({"told": {}}).ask).snapshot()["data"]["parts"]
    heard = idle.snapshot(acts=[{"for_s": 5, "at": 1e12}, {"off": True, "at": 0}, {"delete": True}])["heard"]
    columns = [title for _, title, kind in monitor["columns"] if kind != "capacity"]
    reasons = [line.partition(":")[0] for line in monitor["unknown"]]
    texts = [*columns, *reasons, *monitor["holders"], idle.snapshot()["data"]["reminder"]]
    texts += [each["text"] for each in heard]
    texts += [text for part in quota for text in (part["title"], *part["lines"])]
    allowed = (r"`[^`]*`|%\S+|\(pid|It does not answer\. Wait\.", *NOT_ENGLISH)
    assert list(english_lines("\n".join(texts), allowed)) == []


@pytest.mark.parametrize("name", ["TpuMonitor", "IdleTimer", "QuotaAndCredit"])
def test_what_a_page_draws_is_in_the_users_language(run_cells: Any, language: dict[str, str], name: str) -> None:
    load = f"from jupyter_tpu.notebook.widgets import {name}; print({name}().live._esm)"
    script = run_cells(load, environ=language).text
    marked = re.findall(r'\btranslated\(\s*"((?:[^"\\]|\\.)*)"', script)
    assert list(english_lines("\n".join(json.loads(f'"{each}"') for each in marked), (r"\{\w+\}",))) == []
    # a sentence or a label that is not marked
    rest = re.sub(r'//.*|\btranslated\(\s*"(?:[^"\\]|\\.)*"', "", script)
    assert re.findall(r'"[A-Z][a-z]+(?: [^"]*)?"', rest) == []


def test_a_snapshot_is_in_the_users_language(run_cells: Any, language: dict[str, str]) -> None:
    cell = "from jupyter_tpu.notebook.widgets import IdleTimer; print(IdleTimer()._repr_mimebundle_()['text/plain'])"
    shown = run_cells(cell, environ={**language, "HOME": "/nowhere"}).text
    assert list(english_lines(shown, (r"`[^`]*`|%pip install anywidget", *NOT_ENGLISH))) == []
