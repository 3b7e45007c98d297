"""``%tpu autostop``, ``extend``, ``stop`` and ``delete``: show auto-stop, keep this node running, stop or delete it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from jupyter_tpu.commands.extension import extension
from jupyter_tpu.errors import AgentBroken, Text, TpuError, WorkerUnreachable
from jupyter_tpu.notebook.display import MagicOutput, Section, text_output
from jupyter_tpu.notebook.magics.context import Answer, MagicContext
from jupyter_tpu.notebook.magics.extend import end_lines, extend_lines, reminder_line, report_lines
from jupyter_tpu.notebook.magics.money import node_cost

# The cloud may take this long to accept the request, and the agent first needs a token from the metadata server.
END_TIMEOUT_S = 20.0


def autostop(context: MagicContext) -> MagicOutput:
    """Show the activity on this node and when auto-stop will stop it."""
    answer = context.call("activity", {})
    return _shown(answer, lambda report: [*filter(None, [reminder(context.call, report)]), *report_lines(report)])


def reminder(ask: Callable[[str, Answer], Answer], answer: Answer) -> str:
    """Return a reminder that this unused node is billed, with its cost so far, or an empty string if none is due."""
    return reminder_line(answer, node_cost(ask) if answer.get("reminder") else None)


def extend(context: MagicContext, options: Namespace) -> MagicOutput:
    """Keep this node running for a time or until the current cell finishes, or cancel an extension."""
    params = extension(options, context.now)
    try:
        answer = context.call("keep", params)
    except WorkerUnreachable as error:
        # The request may have arrived even though there was no response.
        error.exists = "The extension may or may not be in effect. Check with `%tpu autostop`."
        raise
    return _shown(answer, extend_lines)


def autostop_section(answer: Answer) -> Section:
    """Return the section of ``%tpu`` that shows when the node will stop."""
    return Section(title=Text("Auto-stop"), age=Text("now"), lines=_lines(answer, end_lines))


def _shown(answer: Answer, lines: Callable[[Answer], list[str]]) -> MagicOutput:
    return text_output(*_lines(answer, lines))


def _lines(answer: Answer, lines: Callable[[Answer], list[str]]) -> list[str]:
    try:
        return lines(answer)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise AgentBroken("This version can't read the agent's auto-stop report.") from error


def stop(context: MagicContext, options: Namespace) -> MagicOutput:
    """Stop or delete this node through its guard, with the machine's own token and without the user's credentials."""
    return _end(context, "delete" if options.delete else "stop", is_sure=options.yes)


def delete(context: MagicContext, options: Namespace) -> MagicOutput:
    """Delete this node through its guard, as `stop` does."""
    return _end(context, "delete", is_sure=options.yes)


def _end(context: MagicContext, action: str, *, is_sure: bool) -> MagicOutput:
    # Make a trial call first: it returns whether the guard may stop the node, and the node's full name for the prompt.
    calls = {"end": ("end_node", {"action": action, "is_trial": True}), "kernels": ("list_kernels", {})}
    answers = context.call_all(calls)
    trial = answers["end"]
    if isinstance(trial, TpuError):
        raise trial
    asked = _stop_question(action, str(trial.get("node")), answers["kernels"])
    if not is_sure and not context.confirm(asked):
        return text_output(Text("Nothing was done: the node keeps running and is billed."))
    return _ended(context, action)


def _ended(context: MagicContext, action: str) -> MagicOutput:
    try:
        node = str(context.call("end_node", {"action": action}, END_TIMEOUT_S).get("node"))
    except WorkerUnreachable as error:
        error.exists = "The node may or may not stop. Check with `jupyter tpu list` on your own machine."
        raise
    stopping = Text(
        "The cloud accepted the request: {node} is stopping; its disk is kept and billed. All its kernels stop.",
        node=_short(node),
    )
    deleted = Text(
        "The cloud accepted the request: {node} is being deleted with its disk. All its kernels stop.",
        node=_short(node),
    )
    return text_output(stopping if action == "stop" else deleted)


def _stop_question(action: str, node: str, kernels: Answer | TpuError) -> Text:
    values = {"node": _short(node), "kernels": _kernels_text(kernels)}
    if action == "stop":
        return Text("Stop {node}? {kernels}").with_arguments(**values)
    return Text("Delete {node} and everything on its disk? {kernels}").with_arguments(**values)


def _kernels_text(kernels: Answer | TpuError) -> Text:
    """Return a text with the number of kernels that will be shut down with the node."""
    if isinstance(kernels, TpuError) or not isinstance(kernels.get("kernels"), list):
        return Text("All its kernels stop.")
    alive = [each for each in kernels["kernels"] if isinstance(each, dict) and each.get("alive")]
    # Exclude this kernel, which is listed as busy because it is running this cell.
    others = max(0, len(alive) - 1)
    busy = max(0, sum(each.get("execution_state") == "busy" for each in alive) - 1)
    if not others:
        return Text("This kernel also stops.")
    if others == 1:
        return Text("This kernel and 1 other kernel ({busy} busy) stop.", busy=busy)
    return Text("This kernel and {others} other kernels ({busy} busy) stop.", others=others, busy=busy)


def _short(node: str) -> str:
    return node.rpartition("/")[2]
