"""``%%tpu_time``: time a cell, and show its cost and the share of time in which the chips computed."""

from __future__ import annotations

import ast
import itertools
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import BadInput, Text, TpuError
from jupyter_tpu.notebook.display import MagicOutput, Section, age_text, text_output, unknown_because
from jupyter_tpu.notebook.magics.context import Answer, MagicContext
from jupyter_tpu.notebook.magics.money import per_hour, snapshot_call, snapshot_of, unreadable_snapshot, usd
from jupyter_tpu.worker_clock import wall_clock

HELP = Section(
    lines=[Text("Time a cell: show its wall-clock time, how long the chips were computing, and the cost.")],
    header=(Text("command"), Text("meaning")),
    rows=[
        ("%%tpu_time", Text("as the first line of a cell: run the cell, then show its times")),
        ("%tpu_time train(state)", Text("time one line")),
    ],
)

# The longest history and the most points that the agent returns (`agent.metrics.methods`).
_HISTORY_S, _POINTS = 3600.0, 600
# Fewer samples than this are not enough for the mean load of a cell.
_LEAST_POINTS = 3
# Share of the cell's time that the samples must cover. If they cover less, the mean would be a guess.
_LEAST_COVERED = 0.8
_HOUR_S = 3600.0


class CellSyntaxError(Exception):
    """A syntax error in the cell, shown as IPython shows it: without the stack frames of the magic."""

    def __init__(self, error: Exception, shown: list[str]) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self._shown = shown

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback."""
        return self._shown


@dataclass(frozen=True)
class Timed:
    """The start and end of a cell in Unix seconds, and its duration measured with a monotonic clock."""

    began_at: float
    ended_at: float
    wall_s: float


def time_cell(shell: Any, line: str, cell: str | None) -> Any:
    """Run a cell or a line's code in the user's namespace and show its times, even if the code fails.

    Returns the value of the last expression, like a cell; raises whatever the code raises.

    Raises:
        BadInput: there is nothing to run, or the code uses ``await``.
        CellSyntaxError: the code is not valid Python.
    """
    __tracebackhide__ = True  # IPython omits this frame from tracebacks of the user's code
    if line.strip() in ("--help", "-h"):
        shell.display_pub.publish(data=MagicOutput(sections=[HELP]).to_mimebundle())
        return None
    statements, expression = _compiled(shell, _source(line, cell))
    began_at, began = wall_clock(), time.perf_counter()
    try:
        exec(statements, shell.user_ns)
        return None if expression is None else eval(expression, shell.user_ns)
    finally:
        timed = Timed(began_at, wall_clock(), time.perf_counter() - began)
        shell.display_pub.publish(data=text_output(*lines_of(timed, MagicContext())).to_mimebundle())


def _source(line: str, cell: str | None) -> str:
    if cell is not None and line.strip():
        text = Text("%%tpu_time has no argument {argument}.", argument=f"{line.strip()[:60]!r}")
        raise BadInput(text, hint="Write only `%%tpu_time` in the first line of the cell.")
    source = line if cell is None else cell
    if not source.strip():
        raise BadInput(
            "There is nothing to time.",
            hint="Write `%%tpu_time` as the first line of a cell, or `%tpu_time` before a line of code.",
        )
    return source


def _compiled(shell: Any, source: str) -> tuple[CodeType, CodeType | None]:
    """Compile the code in two parts: all code before the last expression, and the last expression."""
    try:
        return _parts(shell, source)
    except (SyntaxError, ValueError) as error:  # ValueError: older Pythons raise it for null bytes
        if re.search("await|async", str(error)):
            raise BadInput("%%tpu_time cannot time a cell that uses await.", exists="The cell was not run.") from error
        raise CellSyntaxError(error, shell.SyntaxTB.structured_traceback(type(error), error, [])) from error


def _parts(shell: Any, source: str) -> tuple[CodeType, CodeType | None]:
    # Use the same steps as IPython's run_cell, so that magics, tracebacks and AST transformers work as in any cell.
    code = _above(source) * "\n" + shell.transform_cell(source)
    name = shell.compile.cache(code, shell.execution_count, raw_code=source)
    tree = shell.transform_ast(shell.compile.ast_parse(code, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    expression = shell.compile(ast.Expression(last.value), name, "eval") if last is not None else None
    return shell.compile(tree, name, "exec"), expression


def _above(source: str) -> int:
    """Return the number of lines above the code in its cell. Tracebacks need it to show the right line numbers."""
    return 1 + len(list(itertools.takewhile(lambda line: not line.strip(), source.splitlines())))


# -- the report


def lines_of(timed: Timed, context: MagicContext) -> list[str]:
    """Return one line each for the wall-clock time, the device time and the cost; never raises.

    If a value is unknown, its line gives the reason.
    """
    # Request a few seconds more than the cell took, because the first sample may be from before the cell started.
    length_s = min(_HISTORY_S, math.ceil(timed.wall_s) + 5)
    calls = {
        "metrics": ("metrics", {"history_s": length_s, "points": min(_POINTS, math.ceil(length_s))}),
        "who": ("who", {}),
        "cost": snapshot_call("cost"),
        "node": snapshot_call("node"),
    }
    wall = Text("wall: {time}", time=wall_text(timed.wall_s))
    try:
        answers = context.call_all(calls)
    except TpuError as error:
        device = cost = unknown_because(error)
    else:
        device = _device_text(answers["metrics"], answers["who"], timed)
        cost = _cost_text(answers, timed, context.now)
    return [wall, Text("device: {time}", time=device), Text("cost: {cost}", cost=cost)]


def wall_text(seconds: float) -> str:
    """Return ``12.3 s`` or ``4 min``; short times keep three digits."""
    if seconds >= 120:
        return duration_text(seconds)
    if seconds >= 1:
        return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _device_text(answer: Answer | TpuError, who: Answer | TpuError, timed: Timed) -> Text:
    """Return the device time or why it is unknown."""
    try:
        if isinstance(answer, TpuError):
            raise answer
        if isinstance(who, TpuError):
            raise who
        # `who` is newer than the samples, which may be from before this kernel started using the chips.
        if not any(_is_ours(holder["pid"], str(holder["kernel_id"] or "")) for holder in who["holders"]):
            return Text("unknown: this kernel does not use the chips")
        return device_text(answer["history"] or {}, float(answer["interval_s"]), timed)
    except TpuError as error:
        return unknown_because(error)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return unknown_because(unreadable_snapshot(error))


def _is_ours(pid: int, kernel_id: str) -> bool:
    return pid == os.getpid() or bool(kernel_id and kernel_id == os.environ.get("JUPYTER_TPU_KERNEL_ID"))


def device_text(history: Mapping[str, Any], interval_s: float, timed: Timed) -> Text:
    """Return the device time, computed from the chips' duty cycles, or why it is unknown."""
    within = [timed.began_at < at <= timed.ended_at for at in history.get("at", [])]
    samples = list(_means(history.get("duty_percent", {}), within))
    at = history.get("at", [])
    # A long history is downsampled, so use its own step if it is longer than the agent's interval.
    step_s = max(interval_s, (at[-1] - at[0]) / (len(at) - 1)) if len(at) > 1 else interval_s
    if timed.wall_s < _LEAST_POINTS * step_s:
        return Text("unknown: the cell is too short (the chips are sampled every {seconds} s)", seconds=f"{step_s:g}")
    if len(samples) < _LEAST_POINTS or len(samples) * step_s < _LEAST_COVERED * timed.wall_s:
        known_s = f"{len(samples) * step_s:.0f}"
        return Text("unknown: the chips' duty cycle is known only for {seconds} s of the cell", seconds=known_s)
    share = math.fsum(samples) / len(samples) / 100
    return Text(
        "about {time}, {percent} % of the time (the chips' duty cycle)",
        time=wall_text(share * timed.wall_s),
        percent=f"{share * 100:.0f}",
    )


def _means(duty: Mapping[str, list[float | None]], within: list[bool]) -> Iterator[float]:
    """For each sample taken while the cell ran, yield the mean duty cycle of the chips."""
    for index, is_within in enumerate(within):
        known = [values[index] for values in duty.values()]
        numbers = [value for value in known if value is not None]
        if is_within and numbers:
            yield math.fsum(numbers) / len(numbers)


def _cost_text(answers: Mapping[str, Answer | TpuError], timed: Timed, now: float) -> Text:
    try:
        price = _price(answers)
    except TpuError as error:
        return unknown_because(error)
    except (LookupError, TypeError, AttributeError) as error:
        return unknown_because(unreadable_snapshot(error))
    if price is None:
        return Text("unknown: this node has not received its price yet")
    usd_per_hour, as_of = price
    if usd_per_hour is None:
        return Text("unknown: there is no list price for this node")
    spent = usd(usd_per_hour * timed.wall_s / _HOUR_S)
    return Text(
        "{usd} at {price} ({age}); the node is billed even if idle",
        usd=spent,
        price=per_hour(usd_per_hour),
        age=age_text(as_of, now),
    )


def _price(answers: Mapping[str, Answer | TpuError]) -> tuple[float | None, float] | None:
    """Return the hourly price in dollars and its date.

    It is the price from the ledger, which includes grants, or else the list price.
    """
    spent = snapshot_of(answers["cost"])
    rows = [row for row in spent.data["nodes"] if row["is_open"]] if spent else []
    if spent and rows:
        return rows[-1]["usd_per_hour"], spent.as_of
    node = snapshot_of(answers["node"])
    if node is None:
        return None
    price = node.data["price"]
    return (price["usd_per_hour"] if price else None), node.as_of
