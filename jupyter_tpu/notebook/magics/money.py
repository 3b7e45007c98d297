"""``%tpu cost``, ``%tpu quota`` and ``%tpu grant``: what a laptop has told this node, with its age.

No cloud is asked from here: no credential of the user's lies on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.brakes import span_text
from jupyter_tpu.errors import AgentBroken, TpuError
from jupyter_tpu.notebook.display import UNKNOWN, MagicOutput, Section, age_text
from jupyter_tpu.notebook.magics.words import MagicContext, Word, take_apart
from jupyter_tpu.notebook.node.agent_call import Call

JSON = Mapping[str, Any]
_SPANS = (("today", "today"), ("week", "this week"), ("month", "this month"), ("total", "in all"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaptopSnapshot:
    """A snapshot; `as_of` is in Unix seconds."""

    data: JSON
    as_of: float


def question(kind: str) -> Call:
    """What the agent is asked for a snapshot."""
    return "told", {"kind": kind}


def told(answer: JSON | TpuError) -> LaptopSnapshot | None:
    """The snapshot in an answer; None where nobody has told any.

    Raises:
        TpuError: the answer is an error, or makes no sense.
    """
    if isinstance(answer, TpuError):
        raise answer
    if not answer:
        return None
    data, as_of = answer.get("data"), answer.get("as_of")
    if not isinstance(data, dict) or not isinstance(as_of, (int, float)):
        raise strange()
    return LaptopSnapshot(data=data, as_of=as_of)


def strange(error: Exception | None = None) -> AgentBroken:
    """What was told is not what this version tells."""
    return AgentBroken(
        "This version does not understand what the node was sent.",
        hint="The Jupyter server on your own machine may be of another version.",
        raw="" if error is None else f"{type(error).__name__}: {error}",
    )


def nobody_told(command: str) -> list[str]:
    """Why it is not known, and what to do."""
    return [
        f"{UNKNOWN}: not known on this node yet.",
        "A Jupyter server with jupyter_tpu on your own machine tells it while it is connected.",
        f"In a terminal there, `jupyter tpu {command}` shows it.",
    ]


def usd(value: float | None) -> str:
    """``$12.30``; small sums are not rounded to nothing, and what is not known is not free."""
    if value is None:
        return UNKNOWN
    if value >= 0.1 or not value:
        return f"${value:,.2f}"
    return f"${value:.4f}" if value >= 0.0001 else "less than $0.0001"


def per_hour(value: float | None) -> str:
    return f"price {UNKNOWN}" if value is None else f"{usd(value)} per hour"


# -- cost


def cost(here: MagicContext, words: Sequence[str]) -> MagicOutput:
    take_apart(words)
    answers = here.ask_all({"cost": question("cost"), "budget": question("budget")})
    spent, budgets = told(answers["cost"]), told(answers["budget"])
    if spent is None:
        return MagicOutput(sections=[Section(title="Cost", lines=nobody_told("cost"))])
    return shown(lambda: [*_cost_sections(spent, here.now), *_budget_sections(budgets, here.now)])


def shown(make: Any) -> MagicOutput:
    """The sections that `make` gives; raises `AgentBroken` where what was told lacks something."""
    try:
        return MagicOutput(sections=make())
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise strange(error) from error


def _cost_sections(spent: LaptopSnapshot, now: float) -> Iterator[Section]:
    age = age_text(spent.as_of, now)
    yield Section(title="This node", age=age, lines=list(node_lines(spent.data)))
    rows = [(title, _spent(spent.data[name])) for name, title in _SPANS]
    lines = [] if spent.data["is_complete"] else ["Not all of it was seen: it may be more."]
    yield Section(title="All nodes of the project", age=age, lines=lines, header=("time", "spent"), rows=rows)


def node_cost(ask: Callable[[str, Mapping[str, Any]], JSON]) -> float | None:
    """What this node has cost, as far as it was told that; None where it was not."""
    try:
        known = told(ask(*question("cost")))
        return None if known is None else float(known.data["nodes"][-1]["usd"])
    except (TpuError, LookupError, TypeError, ValueError):
        return None


def node_lines(data: JSON) -> Iterator[str]:
    """What this node costs and has cost."""
    rows = data["nodes"]
    if not rows:
        yield "The ledger does not know it yet."
        return
    row = rows[-1]
    source = f" ({row['price_source']})" if row["price_source"] else ""
    yield f"{per_hour(row['usd_per_hour'])}{source}"
    yield f"{usd(row['usd'])} so far, in {span_text(row['ready_s'])}"


def _spent(view: JSON) -> str:
    if view["usd"] is not None:
        return usd(view["usd"])
    return f"{UNKNOWN}, at least {usd(view['known_usd'])}" if view["known_usd"] else UNKNOWN


def _budget_sections(budgets: LaptopSnapshot | None, now: float) -> Iterator[Section]:
    if budgets is None or not budgets.data["budgets"]:
        return
    rows = [(each["name"], *_budget_texts(each)) for each in budgets.data["budgets"]]
    yield Section(
        title="Budgets", age=age_text(budgets.as_of, now), header=("budget", "used", "of", "when used up"), rows=rows
    )


def _budget_texts(view: JSON) -> tuple[str, str, str]:
    if view["error"] or view["amount"] is None:
        return UNKNOWN, f"cannot be read: {view['error']}", ""
    amount, used = (usd(value) if view["unit"] == "usd" else f"{value:.1f} hours" for value in _amounts(view))
    per = "in all" if view["period"] == "total" else f"per {view['period']}"
    return used, f"{amount} {per}", "nodes are stopped" if view["action"] == "stop" else "a warning"


def _amounts(view: JSON) -> tuple[float, float]:
    return float(view["amount"]), float(view["used"])


# -- quota


def quota(here: MagicContext, words: Sequence[str]) -> MagicOutput:
    take_apart(words)
    known = told(here.ask(*question("quota")))
    if known is None:
        return MagicOutput(sections=[Section(title="Quota", lines=nobody_told("quota"))])
    return shown(lambda: [_quota_section(known, here.now)])


def _quota_section(known: LaptopSnapshot, now: float) -> Section:
    view = known.data
    error = view["error"]
    lines = [error["message"]] if error else []
    if not view["is_complete"]:
        lines.append("Not everything that uses quota was seen: less may be free.")
    rows = [
        (row["label"], row["location"], _limit(row), str(row["used"]), _free(row), row["unit"])
        for row in view["limits"]
    ]
    if not rows:
        lines.append("No limit is known that this node counts against.")
    return Section(
        title="Quota",
        age=age_text(known.as_of, now),
        lines=lines,
        header=("quota", "where", "limit", "used", "free", "unit"),
        rows=rows,
    )


def _limit(row: JSON) -> str:
    return "unlimited" if row["is_unlimited"] else _number(row["limit"])


def _free(row: JSON) -> str:
    return "unlimited" if row["is_unlimited"] else _number(row["free"])


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


# -- grant


def grant(here: MagicContext, words: Sequence[str]) -> MagicOutput:
    take_apart(words)
    known = told(here.ask(*question("grant")))
    if known is None:
        return MagicOutput(sections=[Section(title="Grants and credits", lines=nobody_told("grant"))])
    return shown(lambda: _grant_sections(known, here.now))


def _grant_sections(known: LaptopSnapshot, now: float) -> list[Section]:
    age = age_text(known.as_of, now)
    grants = known.data["grants"]
    if not grants:
        return [
            Section(title="Grants and credits", age=age, lines=["None was entered: `jupyter tpu grant` takes one."])
        ]
    return [Section(title=each["name"], age=age, lines=list(grant_lines(each)), **_chips(each)) for each in grants]


def grant_lines(view: JSON) -> Iterator[str]:
    """Until when it holds, and what is left of a credit."""
    if view["error"]:
        yield f"It cannot be read: {view['error']}"
        return
    over = f"ended on {view['ends_on']}" if view["is_over"] else f"until {view['ends_on']}"
    left = "" if view["is_over"] else f", {view['days_left']} days left"
    yield f"{view['kind']}, {over}{left}"
    if view["usd"] is not None:
        yield f"{usd(view['usd_left'])} left of {usd(view['usd'])}, by what the ledger has seen"


def _chips(view: JSON) -> dict[str, Any]:
    rows = [
        (
            row["generation"],
            row["zone"],
            "spot" if row["spot"] else "on demand",
            str(row["chips"]),
            _number(row["used"]),
            _number(row["free"]),
        )
        for row in view["rows"]
    ]
    return {"header": ("chips", "where", "terms", "granted", "used", "free"), "rows": rows} if rows else {}


WORDS = (
    Word(
        name="cost",
        summary="What this node and the project have cost, and how far the budgets are used.",
        usage={"%tpu cost": "as a Jupyter server on your own machine has told it last"},
        act=cost,
    ),
    Word(
        name="quota",
        summary="Limits that this node counts against, and what is free of them.",
        usage={"%tpu quota": "as a Jupyter server on your own machine has told it last"},
        act=quota,
    ),
    Word(
        name="grant",
        summary="TRC grants and credits: until when they hold, and what is left.",
        usage={"%tpu grant": "as a Jupyter server on your own machine has told it last"},
        act=grant,
    ),
)
