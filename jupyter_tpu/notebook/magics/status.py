"""``%tpu`` without a command: show this node on one screen, with the age of each section's data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text, TpuError, joined
from jupyter_tpu.notebook.display import MagicOutput, Section, age_text, unknown_because
from jupyter_tpu.notebook.magics.autostop import autostop_section
from jupyter_tpu.notebook.magics.chips import NEWEST_SAMPLE, chips_section, sample_of, sample_processes_section
from jupyter_tpu.notebook.magics.context import MagicContext
from jupyter_tpu.notebook.magics.money import (
    GRANTS,
    NONE_ENTERED,
    grant_lines,
    no_snapshot_lines,
    node_lines,
    output_of,
    quota_section,
    snapshot_call,
    snapshot_of,
)
from jupyter_tpu.notebook.node.agent_call import Call
from jupyter_tpu.notebook.node.this_worker import this_worker

_CALLS: Mapping[str, Call] = {
    "metrics": NEWEST_SAMPLE,
    "autostop": ("activity", {}),
    **{kind: snapshot_call(kind) for kind in ("node", "cost", "quota", "grant")},
}


@dataclass(frozen=True)
class AgentAnswers:
    """The agent's responses, or errors, to several calls, and the time of the calls (Unix seconds)."""

    answers: Mapping[str, dict[str, Any] | TpuError]
    now: float

    def answer(self, name: str) -> dict[str, Any]:
        """Return the agent's response to the call `name`; raise the call's error if it failed."""
        answer = self.answers[name]
        if isinstance(answer, TpuError):
            raise answer
        return answer


def status(context: MagicContext) -> MagicOutput:
    """Show the node's status in sections; missing data in one section does not affect the other sections."""
    # Make all calls in parallel, so that the cell waits only for the slowest.
    replies = AgentAnswers(context.call_all(_CALLS), context.now)
    node = Section(title=_machine(context.environ), lines=[])
    parts = [_part(title, make, replies) for title, make in _PARTS.items()]
    return MagicOutput(sections=[node, *_wrong_clock(replies), *(section for part in parts for section in part)])


def _wrong_clock(replies: AgentAnswers) -> Sequence[Section]:
    """Return a warning if this worker's clock is wrong. Displayed ages do not depend on the clock."""
    # Both responses contain the clock's offset, but one of them may be missing.
    answers = (replies.answers["node"], replies.answers["cost"])
    ahead = [each.get("clock_ahead_s") for each in answers if not isinstance(each, TpuError)]
    known = [float(each) for each in ahead if isinstance(each, (int, float))]
    if not known:
        return []
    if known[0] > 0:
        text = Text("This worker's clock is {duration} ahead of your own machine's.")
    else:
        text = Text("This worker's clock is {duration} behind your own machine's.")
    return [Section(title=Text("Clock"), lines=[text.with_arguments(duration=duration_text(abs(known[0])))])]


def _machine(environ: Mapping[str, str]) -> str:
    """Return the headline; its data comes from the kernel's environment variables and needs no snapshot."""
    known = {
        "node": this_worker(environ).node_id,
        "type": environ.get("TPU_ACCELERATOR_TYPE") or Text("accelerator type unknown"),
    }
    is_emulated = environ.get("JUPYTER_TPU_EMULATED") == "1"
    return (Text("{node}: {type}, emulated") if is_emulated else Text("{node}: {type}")).with_arguments(**known)


def _part(title: str, make: Callable[[AgentAnswers], Sequence[Section]], replies: AgentAnswers) -> Sequence[Section]:
    """Return one section of the screen, or the reason why its data is unknown."""
    try:
        return make(replies)
    except TpuError as error:
        return [Section(title=title, lines=[unknown_because(error)])]


def _node(replies: AgentAnswers) -> Sequence[Section]:
    known = snapshot_of(replies.answer("node"))
    if known is None:
        return [Section(title=Text("Node"), lines=no_snapshot_lines("list")[:1])]
    data, age = known.data, age_text(known.as_of, replies.now)
    return output_of(lambda: [Section(title=Text("Node"), age=age, lines=[_node_line(data)])]).sections


def _node_line(data: Mapping[str, Any]) -> str:
    names = ("node_id", "zone", "accelerator_type", "provisioning", "runtime_version", "state", "health_description")
    values = {name: data[name] for name in names}
    if values["health_description"]:
        text = Text(
            "{node_id} in {zone}: {accelerator_type}, {provisioning}, runtime {runtime_version}, {state},"
            " {health_description}"
        )
    else:
        text = Text("{node_id} in {zone}: {accelerator_type}, {provisioning}, runtime {runtime_version}, {state}")
    return text.with_arguments(**values)


def _load(replies: AgentAnswers) -> Sequence[Section]:
    sample = sample_of(replies.answer("metrics"))
    return [chips_section(sample, age_text(sample.at, replies.now)), sample_processes_section(sample, replies.now)]


def _autostop(replies: AgentAnswers) -> Sequence[Section]:
    return [autostop_section(replies.answer("autostop"))]


def _spend(replies: AgentAnswers) -> Sequence[Section]:
    known = snapshot_of(replies.answer("cost"))
    if known is None:
        return [Section(title=Text("Cost"), lines=no_snapshot_lines("cost")[:1])]
    age = age_text(known.as_of, replies.now)
    return output_of(lambda: [Section(title=Text("Cost"), age=age, lines=list(node_lines(known.data)))]).sections


def _quota(replies: AgentAnswers) -> Sequence[Section]:
    known = snapshot_of(replies.answer("quota"))
    if known is None:
        return [Section(title=Text("Quota"), lines=no_snapshot_lines("quota")[:1])]
    return output_of(lambda: [quota_section(known, replies.now)]).sections


def _grants(replies: AgentAnswers) -> Sequence[Section]:
    known = snapshot_of(replies.answer("grant"))
    if known is None:
        return [Section(title=GRANTS, lines=no_snapshot_lines("grant")[:1])]
    age = age_text(known.as_of, replies.now)
    return output_of(lambda: [Section(title=GRANTS, age=age, lines=_all_grants(known.data))]).sections


def _all_grants(data: Mapping[str, Any]) -> list[str]:
    lines = [
        Text("{topic}: {text}", topic=grant["name"], text=joined(grant_lines(grant), "; ")) for grant in data["grants"]
    ]
    return [*lines] or [NONE_ENTERED]


_PARTS: Mapping[str, Callable[[AgentAnswers], Sequence[Section]]] = {
    Text("Node"): _node,
    Text("Chips"): _load,
    Text("Auto-stop"): _autostop,
    Text("Cost"): _spend,
    Text("Quota"): _quota,
    GRANTS: _grants,
}
