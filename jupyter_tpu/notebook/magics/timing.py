"""``%%tpu_time``: how long a cell took, for how much of that the chips computed, and what it cost."""

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

from jupyter_tpu.brakes import span_text
from jupyter_tpu.errors import BadInput, TpuError
from jupyter_tpu.notebook.display import UNKNOWN, MagicOutput, Section, age_text, said
from jupyter_tpu.notebook.magics.money import per_hour, question, strange, told, usd
from jupyter_tpu.notebook.magics.words import Answer, MagicContext

HELP = Section(
    lines=["Times a cell: the wall clock, the share of it in which the chips computed, and what it cost."],
    header=("line", "meaning"),
    rows=[
        ("%%tpu_time", "above a cell: run it, then say how long it took"),
        ("%tpu_time train(state)", "the same for one line"),
    ],
)

_HISTORY_S, _POINTS = 3600.0, 600
_LEAST_POINTS = 3
_LEAST_COVERED = 0.8
_HOUR_S = 3600.0


class CellSyntaxError(Exception):
    """Python cannot read the cell. Shown as IPython shows a syntax error, without the frames of the magic."""

    def __init__(self, error: Exception, shown: list[str]) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self._shown = shown

    def _render_traceback_(self) -> list[str]:
        """IPython calls this in the place of a traceback."""
        return self._shown


@dataclass(frozen=True)
class Timed:
    """When a cell ran, in Unix seconds, and for how long by a clock that nobody sets."""

    began_at: float
    ended_at: float
    wall_s: float


def time_cell(shell: Any, line: str, cell: str | None) -> Any:
    """Run a cell, or what follows on the line, in the user's namespace, and show its times, also when it fails.

    Returns the value of its last expression, as a cell does; raises whatever it raises.

    Raises:
        BadInput: there is nothing to run, or it awaits.
        CellSyntaxError: it is no Python.
    """
    __tracebackhide__ = True
    if line.strip() in ("--help", "-h"):
        shell.display_pub.publish(data=MagicOutput(sections=[HELP]).to_mimebundle())
        return None
    statements, expression = _compiled(shell, _source(line, cell))
    began_at, began = time.time(), time.perf_counter()
    try:
        exec(statements, shell.user_ns)
        return None if expression is None else eval(expression, shell.user_ns)
    finally:
        timed = Timed(began_at, time.time(), time.perf_counter() - began)
        shell.display_pub.publish(data=said(*lines_of(timed, MagicContext())).to_mimebundle())


def _source(line: str, cell: str | None) -> str:
    if cell is not None and line.strip():
        raise BadInput(f"%%tpu_time does not know {line.strip()[:60]!r}.", hint="Write it alone above the cell.")
    source = line if cell is None else cell
    if not source.strip():
        raise BadInput("There is nothing to time.", hint="Write %%tpu_time above a cell, or %tpu_time and a call.")
    return source


def _compiled(shell: Any, source: str) -> tuple[CodeType, CodeType | None]:
    """All but the last expression, and that."""
    try:
        return _parts(shell, source)
    except (SyntaxError, ValueError) as error:  # ValueError: older Pythons say so of null bytes
        if re.search("await|async", str(error)):
            raise BadInput("%%tpu_time cannot time a cell that awaits.", exists="It was not run.") from error
        raise CellSyntaxError(error, shell.SyntaxTB.structured_traceback(type(error), error, [])) from error


def _parts(shell: Any, source: str) -> tuple[CodeType, CodeType | None]:
    code = _above(source) * "\n" + shell.transform_cell(source)
    name = shell.compile.cache(code, shell.execution_count, raw_code=source)
    tree = shell.transform_ast(shell.compile.ast_parse(code, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    expression = shell.compile(ast.Expression(last.value), name, "eval") if last is not None else None
    return shell.compile(tree, name, "exec"), expression


def _above(source: str) -> int:
    """Lines of the cell above the code, the magic's own among them: errors name the lines of the cell."""
    return 1 + len(list(itertools.takewhile(lambda line: not line.strip(), source.splitlines())))


# -- what is told


def lines_of(timed: Timed, here: MagicContext) -> list[str]:
    """The three lines; never raises `TpuError`: what is not known says why."""
    length_s = min(_HISTORY_S, math.ceil(timed.wall_s) + 5)
    calls = {
        "metrics": ("metrics", {"history_s": length_s, "points": min(_POINTS, math.ceil(length_s))}),
        "who": ("who", {}),
        "cost": question("cost"),
        "node": question("node"),
    }
    wall = f"wall: {wall_text(timed.wall_s)}"
    try:
        answers = here.ask_all(calls)
    except TpuError as error:
        return [wall, f"device: {UNKNOWN}: {error.message}", f"cost: {UNKNOWN}: {error.message}"]
    device = _device_text(answers["metrics"], answers["who"], timed)
    return [wall, f"device: {device}", f"cost: {_cost_text(answers, timed, here.now)}"]


def wall_text(seconds: float) -> str:
    """``12.3 s``, ``4 min``; short times keep three digits."""
    if seconds >= 120:
        return span_text(seconds)
    if seconds >= 1:
        return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _device_text(answer: Answer | TpuError, who: Answer | TpuError, timed: Timed) -> str:
    """`who` uses the chips now: the last look at their load may be from before this kernel took them."""
    try:
        if isinstance(answer, TpuError):
            raise answer
        if isinstance(who, TpuError):
            raise who
        if not any(_is_ours(holder["pid"], str(holder["kernel_id"] or "")) for holder in who["holders"]):
            return f"{UNKNOWN}: this kernel does not use the chips"
        return device_text(answer["history"] or {}, float(answer["interval_s"]), timed)
    except TpuError as error:
        return f"{UNKNOWN}: {error.message}"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return f"{UNKNOWN}: {strange(error).message}"


def _is_ours(pid: int, kernel_id: str) -> bool:
    return pid == os.getpid() or bool(kernel_id and kernel_id == os.environ.get("JUPYTER_TPU_KERNEL_ID"))


def device_text(history: Mapping[str, Any], interval_s: float, timed: Timed) -> str:
    """By the chips' duty cycles while the cell ran; unknown where they do not cover it."""
    within = [timed.began_at < at <= timed.ended_at for at in history.get("at", [])]
    looks = list(_means(history.get("duty_percent", {}), within))
    at = history.get("at", [])
    step_s = max(interval_s, (at[-1] - at[0]) / (len(at) - 1)) if len(at) > 1 else interval_s
    if timed.wall_s < _LEAST_POINTS * step_s:
        return f"{UNKNOWN}: the cell was too short for looks at the chips every {step_s:g} s"
    if len(looks) < _LEAST_POINTS or len(looks) * step_s < _LEAST_COVERED * timed.wall_s:
        return f"{UNKNOWN}: the chips' duty cycle is known for {len(looks) * step_s:.0f} s of it only"
    share = math.fsum(looks) / len(looks) / 100
    return f"about {wall_text(share * timed.wall_s)}, {share * 100:.0f} % of the time by the chips' duty cycle"


def _means(duty: Mapping[str, list[float | None]], within: list[bool]) -> Iterator[float]:
    """Over the chips, one for each look that is known."""
    for index, is_within in enumerate(within):
        known = [values[index] for values in duty.values()]
        numbers = [value for value in known if value is not None]
        if is_within and numbers:
            yield math.fsum(numbers) / len(numbers)


def _cost_text(answers: Mapping[str, Answer | TpuError], timed: Timed, now: float) -> str:
    try:
        price = _price(answers)
    except TpuError as error:
        return f"{UNKNOWN}: {error.message}"
    except (LookupError, TypeError, AttributeError) as error:
        return f"{UNKNOWN}: {strange(error).message}"
    if price is None:
        return f"{UNKNOWN}: its price is not known on this node yet"
    usd_per_hour, as_of = price
    if usd_per_hour is None:
        return f"{UNKNOWN}: no list has the price of this node"
    spent = usd(usd_per_hour * timed.wall_s / _HOUR_S)
    return f"{spent} at {per_hour(usd_per_hour)} ({age_text(as_of, now)}); the node is billed busy or not"


def _price(answers: Mapping[str, Answer | TpuError]) -> tuple[float | None, float] | None:
    """In dollars per hour, and as of when: by the ledger, which knows of grants, or by the list."""
    spent = told(answers["cost"])
    rows = [row for row in spent.data["nodes"] if row["is_open"]] if spent else []
    if spent and rows:
        return rows[-1]["usd_per_hour"], spent.as_of
    node = told(answers["node"])
    if node is None:
        return None
    price = node.data["price"]
    return (price["usd_per_hour"] if price else None), node.as_of
