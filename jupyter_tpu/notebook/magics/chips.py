"""``%tpu top``, ``%tpu ps`` and ``%tpu release``: the load of this worker's chips and the processes that use them."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence

from jupyter_tpu.commands.shared import FORCE_NEEDS_PID
from jupyter_tpu.diagnostics import FIXES
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import AgentBroken, BadInput, Text
from jupyter_tpu.metrics import IDLE, MEASURED, Holder, Host, Sample
from jupyter_tpu.notebook.display import UNKNOWN, MagicOutput, Section, age_text, text_output
from jupyter_tpu.notebook.magics.context import NOTHING_DONE, Answer, MagicContext
from jupyter_tpu.notebook.slices import current
from jupyter_tpu.sample_table import TITLES, bytes_text, chips_table, percent_text

# The agent gives each process 3 s to exit (`agent.devices.release.POLITE_S`) and takes at most 5 s in total. This limit
# leaves a margin.
RELEASE_TIMEOUT_S = 10.0

NEWEST_SAMPLE = ("metrics", {"history_s": 0, "points": 1})
"""The call that returns the agent's newest sample."""

# Characters of a command that fit into a table next to the other columns.
_LONGEST_COMMAND = 80
_ITSELF = Text("This kernel itself uses the chips. Restart it to release them.")


def sample_of(answer: Answer) -> Sample:
    """Return the sample in a response to ``metrics``.

    Raises:
        AgentBroken: the response has no sample that this version can read.
    """
    try:
        return Sample.from_json(answer["sample"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(Text("the load of the chips"), error) from error


def _unreadable(what: Text, error: Exception) -> AgentBroken:
    return AgentBroken(
        Text("This version can't read the agent's report of {what}.", what=what),
        hint=Text("The agent may be a different version. {fix}", fix=FIXES["replace-agent"][0]),
        raw=f"{type(error).__name__}: {error}",
    )


def top(context: MagicContext) -> MagicOutput:
    """Show the newest sample: the load of the chips and of the machine, and the TPU processes."""
    sample = sample_of(context.call(*NEWEST_SAMPLE))
    age = age_text(sample.at, context.now)
    return MagicOutput(
        sections=[
            chips_section(sample, age),
            host_section(sample.host, age),
            sample_processes_section(sample, context.now),
        ]
    )


def chips_section(sample: Sample, age: str) -> Section:
    """Return a table of the load and memory of each core.

    A column that is unknown for all cores is replaced with a line that gives the reason.
    """
    table = chips_table(sample)
    lines = list(_why_unknown(sample))
    slice_ = current()
    title = Text("Chips") if slice_ is None else Text("Chips of worker {worker}", worker=getattr(slice_, "worker", 0))
    return Section(title=title, age=age, lines=lines, header=table.header, rows=table.rows)


def _why_unknown(sample: Sample) -> Iterator[str]:
    if sample.state == IDLE:
        yield Text("Idle: no process is using the chips.")
    elif sample.state != MEASURED:
        known = Text("The load of the chips is unknown: {reason}", reason=sample.reason)
        yield known if sample.reason else Text("The load of the chips is unknown.")
    yield from sample.unknown_lines(TITLES)


def host_section(host: Host, age: str) -> Section:
    """Return the load of the chips' host machine."""
    return Section(
        title=Text("Host"),
        age=age,
        lines=[
            Text(
                "CPU: {percent} of {cpus} CPUs",
                percent=percent_text(host.cpu_percent),
                cpus=UNKNOWN if host.cpus is None else host.cpus,
            ),
            Text("Memory: {bytes}", bytes=bytes_text(host.memory_used_bytes, host.memory_total_bytes)),
            Text("Disk: {bytes}", bytes=bytes_text(host.disk_used_bytes, host.disk_total_bytes)),
        ],
    )


def sample_processes_section(sample: Sample, now: float) -> Section:
    """Return the TPU processes in a sample, with its age."""
    return processes_section(sample.holders, now, age=age_text(sample.at, now))


def ps(context: MagicContext) -> MagicOutput:
    """Show the TPU processes and the state of libtpu's lock file, of all workers of this kernel."""
    return _by_worker({each.worker: _ps_on(each) for each in context.of_all_workers()})


def _ps_on(context: MagicContext) -> MagicOutput:
    answer = context.call("who", {})
    lines = list(_lock_lines(answer))
    section = processes_section(_holders(answer, "holders"), context.now)
    return MagicOutput(sections=[section, Section(lines=lines)] if lines else [section])


def _by_worker(outputs: Mapping[int, MagicOutput]) -> MagicOutput:
    """Show the outputs about several workers below each other, each with the worker's number."""
    if list(outputs) == [0]:
        return outputs[0]
    sections: list[Section] = []
    for worker, output in outputs.items():
        sections += [Section(title=Text("Worker {number}", number=worker)), *output.sections]
    return MagicOutput(sections=sections)


def _holders(answer: Answer, name: str) -> list[Holder]:
    try:
        return [Holder.from_json(each) for each in answer[name]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(Text("the processes that use the chips"), error) from error


def processes_section(holders: Sequence[Holder], now: float, age: str = "") -> Section:
    """Return a table of TPU processes; `now` is in Unix seconds."""
    title = Text("TPU processes")
    if not holders:
        return Section(title=title, age=age, lines=[Text("The agent found no TPU processes.")])
    rows = [(str(each.pid), each.user or UNKNOWN, _of(each), _since(each, now), _command(each)) for each in holders]
    header = (Text("pid"), Text("user"), Text("notebook"), Text("running for"), Text("command"))
    return Section(title=title, age=age, header=header, rows=rows)


def _of(holder: Holder) -> str:
    where = holder.notebook or (
        Text("kernel {kernel}", kernel=holder.kernel_id[:8]) if holder.kernel_id else Text("no notebook")
    )
    if _is_self(holder):
        return Text("{notebook} (this one)", notebook=where)
    return where if holder.is_kernel or not holder.kernel_id else Text("started by {notebook}", notebook=where)


def _command(holder: Holder) -> str:
    """Return the shortened command of a process; for a kernel that the agent started, return ``ipykernel``."""
    command = "ipykernel" if "kernel_bootstrap.py" in holder.command else holder.command
    return command if len(command) <= _LONGEST_COMMAND else f"{command[:_LONGEST_COMMAND]}…"


def _since(holder: Holder, now: float) -> str:
    return UNKNOWN if holder.since is None else duration_text(now - holder.since)


def _lock_lines(answer: Answer) -> Iterator[str]:
    if answer.get("reason"):
        yield Text(str(answer["reason"]))
    lock = answer.get("lock_file")
    if isinstance(lock, dict) and lock.get("is_there"):
        path = str(lock.get("path"))
        if lock.get("is_held"):
            yield Text("Lock file {path}: held by a process.", path=path)
        else:
            yield Text("Lock file {path}: left over, not held by any process.", path=path)


def release(context: MagicContext, options: Namespace) -> MagicOutput:
    """Kill the processes that use the chips of this kernel's workers, after a confirmation for each process.

    Another user's process is killed only if the user chooses it by its pid.
    """
    if options.force and options.pid is None:
        raise BadInput(FORCE_NEEDS_PID, exists=NOTHING_DONE)
    found = [(each, _holders(each.call("who", {}), "holders")) for each in context.of_all_workers()]
    # Only mention workers on which there is something to do.
    meant = [(each, holders) for each, holders in found if _wanted(holders, options)]
    meant = meant or [(each, holders) for each, holders in found if holders] or found[:1]
    return _by_worker({each.worker: _release_on(each, holders, options) for each, holders in meant})


def _wanted(holders: Sequence[Holder], options: Namespace) -> list[Holder]:
    # Stop other users' processes only by PID, never with a bare `release`.
    return [each for each in holders if each.pid == options.pid or (options.pid is None and each.is_own_user)]


def _release_on(context: MagicContext, holders: Sequence[Holder], options: Namespace) -> MagicOutput:
    wanted = _wanted(holders, options)
    if not wanted:
        return _nothing_to_free(holders, options.pid, context.now)
    # Stopping this kernel would also stop the cell with this command; the user can restart it instead.
    others = [each for each in wanted if not _is_self(each)]
    if not others:
        return text_output(Text("This kernel itself uses the chips. Restart it to release them. Nothing was done."))
    shown = _freed(context, [each for each in others if _is_agreed(context, each, options)])
    return shown if others == wanted else MagicOutput(sections=[*shown.sections, Section(lines=[_ITSELF])])


def _nothing_to_free(holders: Sequence[Holder], pid: int | None, now: float) -> MagicOutput:
    if pid is not None:
        text = Text("No process with the pid {pid} uses the chips. Nothing was done.", pid=pid)
    elif holders:
        text = Text(
            "Nothing was done: only other users' processes use the chips. To end one, run `%tpu release --pid PID`."
        )
    else:
        return text_output(Text("The agent found no process that uses the chips. Nothing was done."))
    return MagicOutput(sections=[Section(lines=[text]), *([processes_section(holders, now)] if holders else [])])


def _is_agreed(context: MagicContext, holder: Holder, options: Namespace) -> bool:
    if options.yes and (holder.is_own_user or options.force):
        return True
    process = {"pid": holder.pid, "notebook": _of(holder), "command": _command(holder)}
    if holder.is_own_user:
        return context.confirm(Text("End process {pid} ({notebook}: {command})?").with_arguments(**process))
    question = Text("End process {pid} ({notebook}: {command}), which belongs to user {user}?")
    hint = "Add --yes and --force to the line: --yes alone does not cover other users' processes."
    return context.confirm(question.with_arguments(**process, user=holder.user or UNKNOWN), hint)


def _freed(context: MagicContext, agreed: Sequence[Holder]) -> MagicOutput:
    if not agreed:
        return text_output(NOTHING_DONE)
    force = any(not each.is_own_user for each in agreed)
    # Use PID and start time, because the PID may have been reused by another process.
    processes = [{"pid": each.pid, "since": each.since} for each in agreed]
    by = f"%tpu release in {os.environ.get('JPY_SESSION_NAME') or 'another kernel on this node'}"
    answer = context.call("free", {"processes": processes, "force": force, "by": by}, RELEASE_TIMEOUT_S)
    return text_output(*_free_lines(answer))


def _free_lines(answer: Answer) -> Iterator[str]:
    left = _holders(answer, "left")
    for each in _holders(answer, "freed"):
        yield Text("Process {pid} ({notebook}) has ended.", pid=each.pid, notebook=_of(each))
    if answer.get("message"):
        yield Text(str(answer["message"]))
    for each in left:
        if not _is_self(each):
            yield Text("Process {pid} ({notebook}) is still using the chips.", pid=each.pid, notebook=_of(each))
    if not left:
        yield Text("The chips are free.")


def _is_self(holder: Holder) -> bool:
    """Return whether the process is this kernel, or its part on another worker."""
    own_id = os.environ.get("JUPYTER_TPU_KERNEL_ID")
    return holder.pid == os.getpid() or (holder.is_kernel and holder.kernel_id == own_id)
