"""Lines of ``%tpu`` against agents that answer as agents do, strangely, or not at all."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pseudo_language import english_lines, write_language

from jupyter_tpu.commands.shared import ON_NODE
from jupyter_tpu.errors import AgentBroken, BadInput, TpuError, WorkerUnreachable
from jupyter_tpu.notebook.magics.context import PATIENCE_VARIABLE, MagicContext
from jupyter_tpu.notebook.magics.subcommands import run_line
from jupyter_tpu.notebook.node.agent_call import SOCKET_VARIABLE, call_all, is_agent_here
from jupyter_tpu.wire.frames import FROM_CLIENT, FrameDecoder, Kind, encode_frame, encode_json

NOW = 1_790_000_000.0
EVIL = "<script>alert(1)</script>\x1b[2J\u202e\r\n<b>"
GIB = 2**30

HOLDER = {
    "pid": 4242,
    "user": EVIL,
    "command": EVIL,
    "kernel_id": "k",
    "notebook": EVIL,
    "since": NOW - 300,
    "is_own_user": True,
}
CORE = {"core": 4, "chip": 2, "hbm_used_bytes": 3 * GIB, "hbm_total_bytes": 16 * GIB, "idle_s": 0.5, "queued": 2}
SAMPLE = {
    "at": NOW - 1,
    "state": "measured",
    "reason": EVIL,
    "duty_per": "chip",
    "chips": [{"chip": 2, "duty_percent": 78.7}],
    "cores": [CORE, {**CORE, "core": 5, "hbm_used_bytes": None}],
    "unknown": {"tensorcore_percent": EVIL},
    "host": {"cpus": 96, "cpu_percent": 12.5, "memory_used_bytes": GIB, "memory_total_bytes": 4 * GIB},
    "holders": [HOLDER],
}
ACTIVITY = {
    "sources": {"execution": {"state": "active", "age_s": 0.0, "detail": EVIL}},
    "rules": {"idle_after_s": 3600.0, "session_s": None},
    "ends_in_s": 900.0,
    "ends_why": "idle",
    "keep": {"for_s": None, "while_busy": False},
    "guard": {"state": "armed", "detail": EVIL},
}
SPENT = {"usd": 12.5, "known_usd": 12.5, "ready_s": 3600.0}
BUDGET = {"amount": 20.0, "used": 12.5, "unit": "usd", "period": "week", "action": "stop", "error": None}
NODE_ROW = {
    **{"usd_per_hour": 9.6, "price_source": EVIL, "usd": 4.8, "ready_s": 1800.0, "unwatched_s": 720.0},
    "is_open": True,
}
TOLD: dict[str, dict[str, Any]] = {
    "cost": {
        "nodes": [NODE_ROW],
        "is_complete": False,
        "today": {**SPENT, "usd": None},
        **dict.fromkeys(("week", "month", "total"), SPENT),
    },
    "budget": {"budgets": [{"name": EVIL, **BUDGET}, {"name": "lost", **BUDGET, "amount": None, "error": EVIL}]},
    "grant": {
        "grants": [
            {
                **{"name": EVIL, "kind": "trc", "error": None, "is_over": False, "ends_on": EVIL, "days_left": 20},
                **{"usd": 500.0, "usd_left": None},
                "rows": [{"generation": EVIL, "zone": EVIL, "spot": True, "chips": 64, "used": 8, "free": None}],
            }
        ]
    },
    "quota": {
        "error": {"message": EVIL},
        "is_complete": False,
        "limits": [
            {
                **{"label": EVIL, "location": EVIL, "unit": EVIL},
                **{"limit": 8, "used": 16, "free": -8, "is_unlimited": False},
            }
        ],
    },
    "node": {
        **{"node_id": EVIL, "zone": EVIL, "accelerator_type": EVIL, "provisioning": "spot", "runtime_version": EVIL},
        **{"state": "READY", "health_description": EVIL, "price": {"usd_per_hour": 9.6}},
    },
}
ANSWERS: dict[str, Any] = {
    "metrics": {"worker": {}, "interval_s": 1.0, "sample": SAMPLE, "history": None},
    "who": {"holders": [HOLDER], "lock_file": {"path": EVIL, "is_held": False, "is_there": True}, "reason": EVIL},
    "free": {"freed": [HOLDER], "left": [HOLDER], "message": EVIL},
    "activity": ACTIVITY,
    "keep": ACTIVITY,
    "end_node": {"node": EVIL},
    "list_kernels": {"kernels": [{"alive": True, "execution_state": "busy"}] * 3},
    **{f"told {kind}": {"as_of": NOW - 40, "data": data} for kind, data in TOLD.items()},
}
LINES = ("", "top", "ps", "release --yes", "autostop", "extend", "stop --yes", "delete --yes", "cost", "quota", "grant")

Answer = Callable[[str, dict[str, Any]], Any]
Behave = Callable[[socketserver.StreamRequestHandler], None]


class Agent(socketserver.ThreadingUnixStreamServer):
    """Listens where a kernel looks for its agent; what it does with a connection is the test's."""

    daemon_threads = True

    def __init__(self, behave: Behave) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="jt-"))
        handler = type("Handler", (socketserver.StreamRequestHandler,), {"handle": behave})
        super().__init__(str(self._folder / "agent.sock"), handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def here(self) -> MagicContext:
        return MagicContext({SOCKET_VARIABLE: str(self._folder / "agent.sock"), PATIENCE_VARIABLE: "60"}, NOW)

    def end(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        shutil.rmtree(self._folder)


@pytest.fixture
def start() -> Iterator[Callable[[Behave], Agent]]:
    agents: list[Agent] = []

    def start_one(behave: Behave) -> Agent:
        agents.append(Agent(behave))
        return agents[-1]

    yield start_one
    for agent in agents:
        agent.end()


def answering(answers: dict[str, Any], asked: dict[str, Any] | None = None) -> Behave:
    """As an agent does, by a table; an unknown method is refused. What is asked for gets into `asked`, with how."""

    def content(method: str, params: dict[str, Any]) -> dict[str, Any]:
        name = f"told {params['kind']}" if method == "told" else method
        if asked is not None:
            asked[name] = params
        if name not in answers:
            return {"error": BadInput(f"The agent has no method {name!r}.").to_json()}
        return {"result": answers[name]}

    def behave(handler: socketserver.StreamRequestHandler) -> None:
        decoder = FrameDecoder(FROM_CLIENT)
        while data := handler.connection.recv(65536):
            for frame in decoder.feed(data):
                if frame.kind == Kind.CALL:
                    result = content(frame.json()["method"], frame.json()["params"])
                    handler.connection.sendall(encode_json(Kind.RESULT, result, number=frame.number))

    return behave


@pytest.mark.parametrize("line", LINES)
def test_hostile_words_reach_neither_the_page_nor_the_terminal(start: Any, line: str) -> None:
    shown = run_line(line, start(answering(ANSWERS)).here)
    for text in (str(shown), shown.to_html()):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script" not in shown.to_html()
    assert "<b>" not in shown.to_html()
    assert "<b>" in str(shown)


def test_the_screen_tells_all_that_is_known_with_its_age(start: Any) -> None:
    shown = str(run_line("", start(answering(ANSWERS)).here))
    for part in ("Node (updated 40 s ago)", "Chips (updated 1 s ago)", "78.7 %", "3.0 of 16.0 GiB", "$9.60 per hour"):
        assert part in shown
    assert "duty cycle of the chip" in shown
    assert "Auto-stop in 15 min (idle)." in shown
    assert "Quota (updated" in shown


def test_no_page_takes_dollars_for_mathematics(start: Any) -> None:
    page = run_line("", start(answering(ANSWERS)).here).to_html()
    assert "<span>$</span>9.60 per hour" in page
    assert "$" not in page.replace("<span>$</span>", "")


def test_what_a_field_lacks_everywhere_is_a_reason_and_no_column(start: Any) -> None:
    shown = str(run_line("top", start(answering(ANSWERS)).here))
    assert "HBM bandwidth" not in shown
    assert "TensorCore: unknown, " in shown
    assert "Disk: unknown" in shown


def test_an_older_agent_leaves_the_rest_of_the_screen_as_it_is(start: Any) -> None:
    old = {name: answer for name, answer in ANSWERS.items() if name in ("activity", "told cost")}
    shown = str(run_line("", start(answering(old)).here))
    assert "unknown: The agent has no method 'metrics'." in shown
    assert "unknown: The agent has no method 'told grant'." in shown
    assert "$9.60 per hour" in shown


def test_the_cost_says_what_unmonitored_time_it_omits(start: Any) -> None:
    shown = str(run_line("cost", start(answering(ANSWERS)).here))
    assert "It may have been READY for up to 12 min of unmonitored time; budgets include this time." in shown
    assert "The totals may be incomplete: some time was not monitored, or a zone did not respond." in shown


@pytest.mark.parametrize("kind", ["cost", "quota", "grant"])
def test_what_nobody_has_told_is_unknown_and_says_where_it_is_known(start: Any, kind: str) -> None:
    shown = str(run_line(kind, start(answering({f"told {name}": {} for name in TOLD})).here))
    assert "unknown: this node has received no data yet" in shown
    assert f"`jupyter tpu {kind}`" in shown


def changed(value: Any) -> Iterator[Any]:
    """`value` with each part of it in turn missing, or something else."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        for other in (None, "x", -1, [], {}, *changed(part)):
            copied = copy.copy(value)
            copied[key] = other
            yield copied
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}


@pytest.mark.parametrize("line", LINES)
def test_a_strange_answer_is_a_sentence_and_never_a_crash(start: Any, line: str) -> None:
    answers: dict[str, Any] = dict(ANSWERS)
    asked: dict[str, Any] = {}
    here = start(answering(answers, asked)).here
    run_line(line, here)
    for name in tuple(asked):
        for strange in changed(ANSWERS[name]):
            answers[name] = strange
            with suppress(TpuError):
                assert str(run_line(line, here))
        answers[name] = ANSWERS[name]


OTHERS = {"holders": [{**HOLDER, "user": "bob", "is_own_user": False}]}


@pytest.mark.parametrize(
    ("line", "typed", "is_ended"),
    [
        ("release", "", False),
        ("release --yes", "y\n", False),
        ("release --pid 4242", "n\n", False),
        ("release --pid 4242", "\n", False),
        ("release --pid 4242 --yes", "n\n", False),
        ("release --pid 4242 --yes", "yes\n", True),
        ("release --pid 4242 --yes --force", "", True),
        ("release --pid 17", "y\n", False),
    ],
)
def test_a_process_of_another_user_is_ended_by_its_number_and_a_yes(
    start: Any, monkeypatch: pytest.MonkeyPatch, line: str, typed: str, is_ended: bool
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    shown = str(run_line(line, start(answering({**ANSWERS, "who": OTHERS}, asked)).here))
    assert ("Nothing was done" in shown) is not is_ended
    assert ("free" in asked) is is_ended
    if is_ended:
        assert asked["free"]["processes"] == [{"pid": 4242, "since": NOW - 300}]
        assert asked["free"]["force"]


OTHER = {**HOLDER, "command": "python train.py", "notebook": "a.ipynb"}
ITSELF = {**OTHER, "pid": os.getpid()}


@pytest.mark.parametrize(
    ("holders", "answer", "said"),
    [
        (
            [ITSELF, OTHER],
            {"freed": [OTHER], "left": [ITSELF]},
            [
                "Process 4242 (a.ipynb) has ended.",
                "This kernel itself uses the chips. Restart it to release them.",
            ],
        ),
        ([ITSELF], {}, ["This kernel itself uses the chips. Restart it to release them. Nothing was done."]),
        (
            [OTHER],
            {"freed": [], "left": [], "message": "Process 4242 does not use the chips any more."},
            ["Process 4242 does not use the chips any more.", "The chips are free."],
        ),
        (
            [OTHER],
            {"freed": [], "left": [OTHER], "message": "It cannot be ended."},
            ["It cannot be ended.", "Process 4242 (a.ipynb) is still using the chips."],
        ),
    ],
)
def test_what_else_holds_the_chips_is_freed_and_this_kernel_named(
    start: Any, holders: list[dict[str, Any]], answer: dict[str, Any], said: list[str]
) -> None:
    asked: dict[str, Any] = {}
    answers = {**ANSWERS, "who": {"holders": holders}, "free": {"message": "", **answer}}
    shown = str(run_line("release --yes", start(answering(answers, asked)).here))
    assert [line for line in shown.splitlines() if line] == said
    assert "free" not in asked or asked["free"]["processes"] == [{"pid": 4242, "since": NOW - 300}]


def test_nobody_who_could_be_asked_is_no_yes(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for line in ("release", "stop", "stop --delete"):
        with pytest.raises(BadInput, match="This front end can't ask for confirmation"):
            run_line(line, start(answering(ANSWERS, asked)).here)
    assert "free" not in asked
    assert asked["end_node"]["is_trial"] is True


def silent(handler: socketserver.StreamRequestHandler) -> None:
    while handler.connection.recv(65536):
        pass


def closing(_handler: socketserver.StreamRequestHandler) -> None:
    pass


def garbage(handler: socketserver.StreamRequestHandler) -> None:
    handler.connection.sendall(b"\xff" * 1000)


def endless(handler: socketserver.StreamRequestHandler) -> None:
    """Signs of life and never an answer."""
    with suppress(OSError):
        while not threading.Event().wait(0.02):
            handler.connection.sendall(encode_frame(Kind.PONG))


@pytest.mark.parametrize(
    ("behave", "patience_s", "said"),
    [
        (silent, 0.3, "did not respond within 0.3 s"),
        (endless, 0.3, "did not respond within 0.3 s"),
        (closing, 60.0, "is not responding"),
        (garbage, 60.0, "is not responding"),
    ],
)
def test_an_agent_that_does_not_answer_is_given_up(start: Any, behave: Behave, patience_s: float, said: str) -> None:
    calls = {"a": ("activity", {}), "b": ("who", {})}
    answers = call_all(calls, start(behave).here.environ, patience_s=patience_s)
    assert list(answers) == ["a", "b"]
    for answer in answers.values():
        assert isinstance(answer, WorkerUnreachable)
        assert said in answer.message


def test_what_was_answered_is_kept_when_the_rest_is_not(start: Any) -> None:
    def behave(handler: socketserver.StreamRequestHandler) -> None:
        decoder = FrameDecoder(FROM_CLIENT)
        while data := handler.connection.recv(65536):
            for frame in decoder.feed(data):
                if frame.kind == Kind.CALL and frame.json()["method"] == "who":
                    handler.connection.sendall(encode_json(Kind.RESULT, {"result": {}}, number=frame.number))
                    return

    answers = call_all({"a": ("activity", {}), "b": ("who", {})}, start(behave).here.environ, patience_s=60.0)
    assert answers["b"] == {}
    assert isinstance(answers["a"], WorkerUnreachable)


def test_an_answer_that_is_no_object_is_nonsense(start: Any) -> None:
    answers = call_all({"a": ("activity", {})}, start(answering({"activity": []})).here.environ, patience_s=60.0)
    assert isinstance(answers["a"], AgentBroken)


@pytest.mark.parametrize(("for_s", "is_said"), [(None, True), (60.0, False)])
def test_a_keep_that_keeps_nothing_says_so(start: Any, for_s: float | None, is_said: bool) -> None:
    answer = {**ACTIVITY, "keep": {"for_s": for_s, "while_busy": False}}
    shown = str(run_line("extend 0h", start(answering({"keep": answer})).here))
    assert ("Extension cancelled." in shown) is is_said


def test_a_keep_without_an_answer_is_not_taken_for_one(start: Any) -> None:
    with pytest.raises(WorkerUnreachable) as caught:
        run_line("extend", start(closing).here)
    assert "The extension may or may not be in effect" in caught.value.exists


@pytest.mark.parametrize("line", LINES)
def test_without_an_agent_each_word_says_so(line: str) -> None:
    assert not is_agent_here({})
    with pytest.raises(WorkerUnreachable, match="not started by an agent"):
        run_line(line, MagicContext({}, NOW))


@pytest.mark.parametrize(
    "line", ["--help", "help", "-h", "help help", "-h -h", "extend --help", "help extend", "release -h"]
)
def test_help_needs_no_agent(line: str) -> None:
    assert "%tpu extend" in str(run_line(line, MagicContext({}, NOW))) or "%tpu release" in str(
        run_line(line, MagicContext({}, NOW))
    )


def test_help_shows_commands_as_code() -> None:
    page = run_line("--help", MagicContext({}, NOW)).to_html()
    assert "<code>%tpu COMMAND --help</code>" in page
    assert "`" not in page


@pytest.mark.parametrize(
    ("old", "now"), [("keep 3h", "extend 3h"), ("who", "ps"), ("help free", "help release"), ("env", "python")]
)
def test_a_word_by_its_old_name_does_what_the_new_one_does_and_says_so(start: Any, old: str, now: str) -> None:
    agent = answering(ANSWERS)
    shown, as_before = str(run_line(now, start(agent).here)), str(run_line(old, start(agent).here))
    assert as_before.startswith(shown)
    assert old.startswith("help") or f"`%tpu {old.split()[0]}` is now `%tpu {now.split()[0]}`." in as_before


# What stays as it is in any language; `EVIL` stands for every text of an agent, a process or the cloud.
NOT_ENGLISH = (
    r"<?script>.*?<b>",
    r"^\S+(?=: ａｃｃｅｌｅｒａｔｏｒ)",  # the machine's name
    r"%+tpu\S*(?: [a-z-]+)*(?: [A-Z]+\b)?|`[^`]*`",  # what can be typed
    r"(?<!\w)-{1,2}[a-z][a-z-]*",
    r"\b(?:Python|CPython|GiB|min|lost|READY|trc|spot|root)\b|\S*[/_]\S*",
    r"'[^']*'|\b[A-Z][A-Z_]+\b",
)


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_language(tmp_path_factory.mktemp("locale"))


@pytest.fixture
def in_language(language: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in language.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("in_language")
@pytest.mark.parametrize("line", [*LINES, "help", *(f"{name} --help" for name in ("top", *ON_NODE))])
def test_each_line_is_shown_in_the_users_language(start: Any, line: str) -> None:
    shown = str(run_line(line, start(answering(ANSWERS)).here))
    assert list(english_lines(shown, NOT_ENGLISH)) == []


@pytest.mark.usefixtures("in_language")
@pytest.mark.parametrize("kind", ["cost", "quota", "grant", ""])
def test_why_nothing_is_known_is_said_in_the_users_language(start: Any, kind: str) -> None:
    shown = str(run_line(kind, start(answering({f"told {name}": {} for name in TOLD})).here))
    assert list(english_lines(shown, (r"ｕｎｋｎｏｗｎ: .*no method.*", *NOT_ENGLISH))) == []


@pytest.mark.usefixtures("in_language")
@pytest.mark.parametrize(
    "line", ["nonsense", "release --force", "release --pid x", "extend 3x", "logs 0", "quota 5", ""]
)
def test_errors_are_shown_in_the_users_language(line: str) -> None:
    with pytest.raises(TpuError) as caught:
        run_line(line, MagicContext({}, NOW))
    head, *rest = caught.value._render_traceback_()
    shown = "\n".join([head.partition(": ")[2], *rest]).replace("3x", "").replace(", ".join(ON_NODE), "")
    assert list(english_lines(shown, NOT_ENGLISH)) == []


@pytest.mark.usefixtures("in_language")
def test_what_programs_read_stays_english(start: Any) -> None:
    refused = WorkerUnreachable("The agent on this machine is not responding.")
    assert refused.to_json()["message"] == "The agent on this machine is not responding."
    findings = json.loads(str(run_line("doctor --json", start(answering(ANSWERS)).here)))
    assert {"chips", "disk"} <= {each["check"] for each in findings}
