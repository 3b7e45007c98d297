"""``%tpu cost``, ``%tpu quota`` and ``%tpu grant``: show snapshots that the user's own machine sent to the node.

Nothing here calls the cloud, because the user's credentials are never on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import AgentBroken, Text, TpuError
from jupyter_tpu.notebook.display import UNKNOWN, MagicOutput, Section, age_text
from jupyter_tpu.notebook.magics.context import MagicContext
from jupyter_tpu.notebook.node.agent_call import Call

JSON = Mapping[str, Any]
_SPANS = (
    ("today", Text("today")),
    ("week", Text("this week")),
    ("month", Text("this month")),
    ("total", Text("in total")),
)
NONE_ENTERED = Text("You have not added any grants.")
PARTIAL_COST = Text("The totals may be incomplete: some time was not monitored, or a zone did not respond.")
PARTIAL_QUOTA = Text("Partial: some quota usage was not visible, so less may be free.")
NO_QUOTA = Text("No known quota applies to this node.")
UNLIMITED = Text("unlimited")
GRANTS = Text("Grants and credits")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSnapshot:
    """A snapshot of one kind, such as ``cost``; `as_of` is in Unix seconds."""

    data: JSON
    as_of: float


def snapshot_call(kind: str) -> Call:
    """Return the call to the agent for the newest snapshot of a kind."""
    return "told", {"kind": kind}


def snapshot_of(answer: JSON | TpuError) -> ClientSnapshot | None:
    """Return the snapshot in a response, or None if the node has not received a snapshot.

    Raises:
        TpuError: the response is an error or can't be read.
    """
    if isinstance(answer, TpuError):
        raise answer
    if not answer:
        return None
    data, as_of = answer.get("data"), answer.get("as_of")
    if not isinstance(data, dict) or not isinstance(as_of, (int, float)):
        raise unreadable_snapshot()
    return ClientSnapshot(data=data, as_of=as_of)


def unreadable_snapshot(error: Exception | None = None) -> AgentBroken:
    """Return the error for a snapshot that this version can't read."""
    return AgentBroken(
        "This version can't read the data that the node received.",
        hint="The Jupyter server on your own machine may be a different version: install the same jupyter_tpu "
        "version there, then restart it.",
        raw="" if error is None else f"{type(error).__name__}: {error}",
    )


def no_snapshot_lines(command: str) -> list[str]:
    """Return lines that say why a value is unknown and what to do."""
    return [
        Text("unknown: this node has received no data yet."),
        Text("Start a Jupyter server with jupyter_tpu on your own machine: it sends this data while it is connected."),
        Text("To see it, run `jupyter tpu {command}` in a terminal on your own machine.", command=command),
    ]


def usd(value: float | None) -> str:
    """Return ``$12.30`` or ``unknown``; small amounts have more digits, so that they are not rounded to zero."""
    if value is None:
        return UNKNOWN
    if value >= 0.1 or not value:
        return f"${value:,.2f}"
    return f"${value:.4f}" if value >= 0.0001 else Text("less than $0.0001")


def per_hour(value: float | None) -> str:
    """Return ``$9.60 per hour`` or ``price unknown``."""
    return Text("price unknown") if value is None else Text("{usd} per hour", usd=usd(value))


def cost(context: MagicContext) -> MagicOutput:
    """Show the cost of this node and of the project, and the usage of the budgets."""
    answers = context.call_all({"cost": snapshot_call("cost"), "budget": snapshot_call("budget")})
    spent, budgets = snapshot_of(answers["cost"]), snapshot_of(answers["budget"])
    if spent is None:
        return MagicOutput(sections=[Section(title=Text("Cost"), lines=no_snapshot_lines("cost"))])
    return output_of(lambda: [*_cost_sections(spent, context.now), *_budget_sections(budgets, context.now)])


def output_of(make: Any) -> MagicOutput:
    """Return the output that `make` builds from a snapshot; raises `AgentBroken` if the snapshot is incomplete."""
    try:
        return MagicOutput(sections=make())
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unreadable_snapshot(error) from error


def _cost_sections(spent: ClientSnapshot, now: float) -> Iterator[Section]:
    age = age_text(spent.as_of, now)
    yield Section(title=Text("This node"), age=age, lines=list(node_lines(spent.data)))
    rows = [(title, spent_text(spent.data[name])) for name, title in _SPANS]
    lines = [] if spent.data["is_complete"] else [PARTIAL_COST]
    header = (Text("period"), Text("spent"))
    yield Section(title=Text("All nodes of the project"), age=age, lines=lines, header=header, rows=rows)


def node_cost(ask: Callable[[str, Mapping[str, Any]], JSON]) -> float | None:
    """Return the cost of this node in dollars, according to the newest snapshot, or None if it is unknown."""
    try:
        known = snapshot_of(ask(*snapshot_call("cost")))
        return None if known is None else float(known.data["nodes"][-1]["usd"])
    except (TpuError, LookupError, TypeError, ValueError):
        return None


def node_lines(data: JSON) -> Iterator[str]:
    """Yield lines with the price of this node, its cost so far, and the time that the cost may omit."""
    rows = data["nodes"]
    if not rows:
        yield Text("The ledger has no entry for this node yet.")
        return
    row = rows[-1]
    price, source = per_hour(row["usd_per_hour"]), row["price_source"]
    yield Text("{price} ({source})", price=price, source=source) if source else price
    yield Text("{usd} so far, in {duration}", usd=usd(row["usd"]), duration=duration_text(row["ready_s"]))
    if gap_s := row.get("unwatched_s"):  # older servers don't send it
        yield Text(
            "It may have been READY for up to {gap} of unmonitored time; budgets include this time.",
            gap=duration_text(gap_s),
        )


def spent_text(view: JSON) -> str:
    """Return the amount spent in a period as text, or a lower bound if a price is unknown."""
    if view["usd"] is not None:
        return usd(view["usd"])
    return Text("unknown, at least {usd}", usd=usd(view["known_usd"])) if view["known_usd"] else UNKNOWN


def _budget_sections(budgets: ClientSnapshot | None, now: float) -> Iterator[Section]:
    if budgets is None or not budgets.data["budgets"]:
        return
    rows = [(each["name"], *_budget_texts(each)) for each in budgets.data["budgets"]]
    header = (Text("budget"), Text("used"), Text("amount"), Text("when used up"))
    yield Section(title=Text("Budgets"), age=age_text(budgets.as_of, now), header=header, rows=rows)


def _budget_texts(view: JSON) -> tuple[str, str, str]:
    if view["error"] or view["amount"] is None:
        return UNKNOWN, Text("cannot be read: {error}", error=view["error"]), ""
    amount, used = (
        usd(value) if view["unit"] == "usd" else Text("{number} hours", number=f"{value:.1f}")
        for value in _amounts(view)
    )
    return used, amount_per_period(amount, str(view["period"])), _at_the_cap(view)


_PER_PERIOD = {
    "day": Text("{amount} per day"),
    "week": Text("{amount} per week"),
    "month": Text("{amount} per month"),
    "total": Text("{amount} in total"),
}


def amount_per_period(amount: str, period: str) -> Text:
    """Return a budget's amount and its period; a newer server may send periods that this version does not know."""
    known = _PER_PERIOD.get(period)
    if known is None:
        return Text("{amount} per {period}", amount=amount, period=period)
    return known.with_arguments(amount=amount)


def _at_the_cap(view: JSON) -> str:
    if view["action"] == "warn":
        return Text("warning only")
    # a grant covers dollars, not hours
    spares_granted = view["action"] == "stop" and view["unit"] == "usd"
    if spares_granted:
        return Text("billed nodes are stopped, and those that cannot be stopped are deleted")
    return Text("all nodes are stopped, and those that cannot be stopped are deleted")


def _amounts(view: JSON) -> tuple[float, float]:
    return float(view["amount"]), float(view["used"])


def quota(context: MagicContext) -> MagicOutput:
    """Show the quotas that this node counts against."""
    known = snapshot_of(context.call(*snapshot_call("quota")))
    if known is None:
        return MagicOutput(sections=[Section(title=Text("Quota"), lines=no_snapshot_lines("quota"))])
    return output_of(lambda: [quota_section(known, context.now)])


def quota_section(known: ClientSnapshot, now: float) -> Section:
    """Return a table of the quotas that this node counts against, with their age."""
    view = known.data
    error = view["error"]
    lines = [error["message"]] if error else []
    if not view["is_complete"]:
        lines.append(PARTIAL_QUOTA)
    rows = [
        (row["label"], row["location"], _limit(row), str(row["used"]), _free(row), row["unit"])
        for row in view["limits"]
    ]
    if not rows:
        lines.append(NO_QUOTA)
    return Section(
        title=Text("Quota"),
        age=age_text(known.as_of, now),
        lines=lines,
        header=(Text("quota"), Text("where"), Text("limit"), Text("used"), Text("free"), Text("unit")),
        rows=rows,
    )


def _limit(row: JSON) -> str:
    return UNLIMITED if row["is_unlimited"] else _number(row["limit"])


def _free(row: JSON) -> str:
    return UNLIMITED if row["is_unlimited"] else _number(row["free"])


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


def grant(context: MagicContext) -> MagicOutput:
    """Show the grants and credits of the project."""
    known = snapshot_of(context.call(*snapshot_call("grant")))
    if known is None:
        return MagicOutput(sections=[Section(title=GRANTS, lines=no_snapshot_lines("grant"))])
    return output_of(lambda: _grant_sections(known, context.now))


def _grant_sections(known: ClientSnapshot, now: float) -> list[Section]:
    age = age_text(known.as_of, now)
    grants = known.data["grants"]
    if not grants:
        line = Text("You have not added any grants. To add one, run `jupyter tpu grant add`.")
        return [Section(title=GRANTS, age=age, lines=[line])]
    return [Section(title=each["name"], age=age, lines=list(grant_lines(each)), **_chips(each)) for each in grants]


def grant_lines(view: JSON) -> Iterator[str]:
    """Yield lines with a grant's last day and, for a credit, the remaining amount."""
    if view["error"]:
        yield Text("The grant cannot be read: {error}", error=view["error"])
        return
    known = {"kind": view["kind"], "date": view["ends_on"]}
    if view["is_over"]:
        yield Text("{kind}, ended on {date}").with_arguments(**known)
    else:
        template = Text("{kind}, until {date}, {days} days left")
        if view["days_left"] == 1:
            template = Text("{kind}, until {date}, 1 day left")
        yield template.with_arguments(**known, days=view["days_left"])
    if view["usd"] is not None:
        yield Text("{left} left of {usd}, according to the ledger", left=usd(view["usd_left"]), usd=usd(view["usd"]))


def _chips(view: JSON) -> dict[str, Any]:
    rows = [
        (
            row["generation"],
            row["zone"],
            terms_text(row),
            str(row["chips"]),
            _number(row["used"]),
            _number(row["free"]),
        )
        for row in view["rows"]
    ]
    header = (Text("chips"), Text("where"), Text("provisioning"), Text("granted"), Text("used"), Text("free"))
    return {"header": header, "rows": rows} if rows else {}


def terms_text(row: JSON) -> Text:
    """Return a text that says whether a grant's chips are spot or on-demand."""
    return Text("spot") if row["spot"] else Text("on-demand")
