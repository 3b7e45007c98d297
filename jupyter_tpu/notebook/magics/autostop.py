"""``%tpu idle``, ``%tpu extend`` and ``%tpu stop``: when this node ends, and who says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jupyter_tpu.errors import AgentBroken, TpuError, WorkerUnreachable
from jupyter_tpu.notebook.display import MagicOutput, Section, plain, said
from jupyter_tpu.notebook.magics.extend import end_lines, kept, parse_keep, reminder_line, told
from jupyter_tpu.notebook.magics.money import node_cost
from jupyter_tpu.notebook.magics.words import Answer, MagicContext, Word, take_apart

END_S = 20.0
"""What the cloud may take to accept an order; the agent asks its metadata server first."""


def idle(here: MagicContext, words: Sequence[str]) -> MagicOutput:
    take_apart(words)
    answer = here.ask("activity", {})
    return _shown(answer, lambda said: [*filter(None, [reminder(here.ask, said)]), *told(said)])


def reminder(ask: Callable[[str, Answer], Answer], answer: Answer) -> str:
    """That this node is billed though nobody acts, with what it has cost; empty where that is not due."""
    return reminder_line(answer, node_cost(ask) if answer.get("reminder") else None)


def keep(here: MagicContext, words: Sequence[str]) -> MagicOutput:
    params = parse_keep(words, here.now)
    try:
        answer = here.ask("keep", params)
    except WorkerUnreachable as error:
        error.exists = "Whether the node is kept is not known: %tpu idle shows it."
        raise
    return _shown(answer, kept)


def brakes_section(answer: Answer) -> Section:
    """When the node ends."""
    return Section(title="Brakes", age="now", lines=_lines(answer, end_lines))


def _shown(answer: Answer, lines: Callable[[Answer], list[str]]) -> MagicOutput:
    return said(*_lines(answer, lines))


def _lines(answer: Answer, lines: Callable[[Answer], list[str]]) -> list[str]:
    try:
        return lines(answer)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise AgentBroken("This version does not understand the agent's auto-stop report.") from error


def stop(here: MagicContext, words: Sequence[str]) -> MagicOutput:
    """Through the guard, which ends its own node with the token of the machine; nothing of the user's is needed."""
    given = take_apart(words, flags=("--delete", "--yes"))
    action = "delete" if "--delete" in given.flags else "stop"
    answers = here.ask_all({"end": ("end_node", {"action": action, "is_trial": True}), "kernels": ("list_kernels", {})})
    trial = answers["end"]
    if isinstance(trial, TpuError):
        raise trial
    asked = _stop_question(action, str(trial.get("node")), answers["kernels"])
    if "--yes" not in given.flags and not here.ask_person(asked):
        return said("Nothing was done: the node runs on, and is billed.")
    return _ended(here, action)


def _ended(here: MagicContext, action: str) -> MagicOutput:
    try:
        node = str(here.ask("end_node", {"action": action}, END_S).get("node"))
    except WorkerUnreachable as error:
        error.exists = "Whether the node ends is not known: `jupyter tpu list` on your own machine shows it."
        raise
    what = "is being stopped; its disk is kept, and billed." if action == "stop" else "is being deleted, with its disk."
    return said(f"The cloud has accepted it: {_short(node)} {what} All kernels on it end now.")


def _stop_question(action: str, node: str, kernels: Answer | TpuError) -> str:
    what = f"Stop {_short(node)}" if action == "stop" else f"Delete {_short(node)} and all that is on its disk"
    return plain(f"{what}? {_kernels_text(kernels)}")


def _kernels_text(kernels: Answer | TpuError) -> str:
    """This one is among them, and busy."""
    if isinstance(kernels, TpuError) or not isinstance(kernels.get("kernels"), list):
        return "All kernels on it end."
    alive = [each for each in kernels["kernels"] if isinstance(each, dict) and each.get("alive")]
    others = max(0, len(alive) - 1)
    busy = max(0, sum(each.get("execution_state") == "busy" for each in alive) - 1)
    if not others:
        return "This kernel ends with it."
    return f"This kernel ends with it, and {others} other{'' if others == 1 else 's'} ({busy} busy)."


def _short(node: str) -> str:
    return node.rpartition("/")[2]


WORDS = (
    Word(
        name="idle",
        summary="What is active here, and when this node ends by itself.",
        usage={"%tpu idle": "execution, accelerator and people, each with its age, and the rules"},
        act=idle,
    ),
    Word(
        name="extend",
        summary="Keep this node running: auto-stop waits. A budget's deadline does not.",
        usage={
            "%tpu extend": "for an hour",
            "%tpu extend 3h": "for so long (s, m, h or d)",
            "%tpu extend until 18:00": "until then by the node's clock, which is UTC unless someone has changed it",
            "%tpu extend while-busy": "until what runs now has ended",
            "%tpu extend off": "no longer",
        },
        options=("1h", "3h", "until", "while-busy", "off"),
        act=keep,
    ),
    Word(
        name="stop",
        summary="Stop this node, after asking: its guard orders that, also without your own machine.",
        usage={
            "%tpu stop": "stop it: its disk is kept, and billed",
            "%tpu stop --delete": "delete it with its disk, as spot nodes and slices of several machines can only be",
            "%tpu stop --yes": "do not ask",
        },
        options=("--delete", "--yes"),
        act=stop,
    ),
)
