"""``%tpu workers`` and ``%tpu logs --worker``: the other workers of a slice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_tpu.errors import AgentBroken, BadInput, Text, plain
from jupyter_tpu.notebook.display import UNKNOWN, MagicOutput, Section, text_output
from jupyter_tpu.notebook.magics.context import MagicContext
from jupyter_tpu.notebook.slices import current
from jupyter_tpu.notebook.slices.worker_facts import worker_facts


def workers(_: MagicContext) -> MagicOutput:
    """Show each worker of the slice."""
    slice_ = _slice()
    rows: list[tuple[str, ...]] = []
    for worker in range(slice_.count):
        facts = slice_.joined.get(worker, {}) if worker else worker_facts()
        rows.append((str(worker), _state(slice_, worker), str(facts.get("pid", UNKNOWN)), facts.get("host", UNKNOWN)))
    header = (Text("worker"), Text("state"), Text("process"), Text("host"))
    return MagicOutput(sections=[Section(header=header, rows=rows)])


def output_of(context: MagicContext, worker: int, lines: int) -> MagicOutput:
    """Show the last lines of a worker's newest output that was too long for the notebook."""
    slice_ = _slice()
    if not 0 < worker < slice_.count:
        hint = Text("Choose a worker from 1 to {last}.", last=slice_.count - 1)
        raise BadInput(Text("Worker {number} is not one of the other workers.", number=worker), hint=hint)
    end = slice_.output_end(worker, lines, context.patience_s)
    if end is None:
        raise AgentBroken(Text("Worker {number} is not responding.", number=worker))
    if not end["lines"]:
        return text_output(Text("The notebook already shows all output of worker {number}.", number=worker))
    return end_of_file(end["path"], end["lines"])


def end_of_file(path: Path | str, lines: Sequence[str]) -> MagicOutput:
    """Show the last lines of a file."""
    if len(lines) == 1:
        title = Text("The last line of {path}", path=path)
    else:
        title = Text("The last {count} lines of {path}", count=len(lines), path=path)
    return MagicOutput(sections=[Section(title=title), Section(verbatim=list(map(plain, lines)))])


def _slice() -> Any:
    slice_ = current()
    if slice_ is None or not hasattr(slice_, "joined"):
        raise BadInput(
            Text("This kernel runs on one worker."), hint=Text("Choose a kernel that runs on all workers of a slice.")
        )
    return slice_


def _state(slice_: Any, worker: int) -> Text:
    if worker in slice_.lost:
        return Text("lost")
    if worker in slice_.running:
        return Text("running: {code}", code=plain(slice_.cell.target.code.strip(), 60))
    return Text("ready") if worker == 0 or worker in slice_.joined else Text("starting")
