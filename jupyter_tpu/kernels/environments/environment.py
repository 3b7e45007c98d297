"""Create a kernel's environment on its worker if it is missing, and save it, so that it can be recreated.

An environment that was lost with its node is recreated with all packages that the user had installed. If some packages
can't be installed, the user is notified and the kernel starts anyway. If a new environment can't be created, the kernel
does not start.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from jupyter_tpu.agent.recording.jupyter_messages import header_place
from jupyter_tpu.errors import BadInput, EnvironmentFailed, TpuError, plain_data
from jupyter_tpu.kernels.environments.requirements import FolderNeeds, folder_needs, without_user
from jupyter_tpu.kernels.environments.saved_environments import SavedEnvironment, SavedEnvironments
from jupyter_tpu.kernels.launch import Launch

if TYPE_CHECKING:
    from jupyter_tpu.kernels.connections.worker import OnProgress, WorkerKey

log = logging.getLogger(__name__)

Call = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""A function that calls a method of the worker's agent."""

Notify = Callable[[str], Awaitable[None]]
"""A function that prints a text in the kernel's notebook."""

_POLL_S = 0.4  # smooth enough for a progress line; each poll is one short call over the link
_PHASE = "environment"

_INSTALL = re.compile(r"^\s*[%!]\s*((?:uv\s+)?pip3?\s+install\s.*\S)", re.MULTILINE)
# Maximum number of installations in a notice and of characters for each. The notice appears in a notebook, so it must
# be short.
_MOST_INSTALLS = 8
_LONGEST_INSTALL = 200


async def make_environment(call: Call, order: Mapping[str, Any], on_progress: OnProgress) -> dict[str, Any]:
    """Create an environment on the worker or install its missing packages; return the agent's description of it.

    Args:
        order: the parameters of the agent's ``make_environment``.

    Raises:
        TpuError: the agent returned an error, or the link is lost. The worker continues an installation that has
            started.
    """
    # The call returns only at the end, so its progress is polled in parallel.
    making = asyncio.ensure_future(call("make_environment", order))
    reported: Any = None
    try:
        while not (await asyncio.wait({making}, timeout=_POLL_S))[0]:
            step = await _step(call, order["framework"])
            if step and step != reported:
                on_progress(step)
                reported = step
        return cast(dict[str, Any], plain_data(await making))
    finally:
        making.cancel()


async def _step(call: Call, framework: str) -> Mapping[str, Any] | None:
    with suppress(TpuError):  # if this call fails, the request itself fails as well and reports the reason
        for each in (await call("environments", {"framework": framework}))["environments"]:
            return each["making"] or None
    return None


class KernelEnvironment:
    """The environment that one kernel uses, also after a restart. If `framework` is empty, methods do nothing."""

    def __init__(self, key: WorkerKey, framework: str) -> None:
        self._framework = framework
        self._memory = SavedEnvironments(key.node, key.endpoint)
        self._python = ""
        self._call: Call | None = None
        self._is_due = False
        self._learning: asyncio.Task[None] | None = None

    async def provide(self, launch: Launch, call: Call, on_progress: OnProgress, notify: Notify) -> Launch:
        """Create the environment if needed. Return `launch`, changed to use the environment's Python.

        Args:
            call: calls the worker's agent.
            notify: prints a message in the notebook, for example which packages could not be restored.

        Raises:
            EnvironmentFailed: the environment cannot be created, or the folder's requirements conflict with it.
            TpuError: the worker does not respond or returns an error.
        """
        if not self._framework:
            return launch
        self._call = call
        if not self._python:
            needs = await asyncio.to_thread(folder_needs, launch.folder)
            _show(needs, on_progress)
            self._python = await self._found_or_made(needs, on_progress, notify)
        return replace(launch, python=self._python)

    async def report_lost_packages(self, codes: Iterable[str], on_progress: OnProgress, notify: Notify) -> None:
        """Notify the user of packages that these cells had installed in the lost node's system Python."""
        text = "" if self._framework else lost_packages_notice(codes)
        if text:
            on_progress(_step_of(text))
            await notify(text)

    def attach(self, call: Call) -> None:
        """Attach to a kernel that was started by another process."""
        self._call = call

    def forget_python(self) -> None:
        """Clear the environment's Python, which was lost with its node."""
        self._python = ""

    def observe(self, channel: str, parts: Sequence[bytes]) -> None:
        """Observe a message from the kernel; after each cell, save the packages that the cell installed."""
        if channel != "shell" or not self._framework or self._call is None:
            return
        place = header_place(parts)
        if place and b'"execute_reply"' in parts[place]:
            # Run only one task at a time. If the flag is set in the meantime, the task runs once more.
            self._is_due = True
            self._learning = self._learning or asyncio.create_task(self._learn(self._call))

    def close(self) -> None:
        """Stop observing messages."""
        if self._learning:
            self._learning.cancel()
        self._call = None

    async def _found_or_made(self, needs: FolderNeeds, on_progress: OnProgress, notify: Notify) -> str:
        remembered = await asyncio.to_thread(self._memory.find, self._framework)
        if remembered is None or await self._is_there():
            made = await self._make({"requirements": list(needs.lines)}, on_progress)
            return str(made["path"])
        return await self._restored(remembered, needs, on_progress, notify)

    async def _is_there(self) -> bool:
        assert self._call
        found = (await self._call("environments", {"framework": self._framework}))["environments"]
        return any(each["is_ready"] for each in found)

    async def _restored(
        self, remembered: SavedEnvironment, needs: FolderNeeds, on_progress: OnProgress, notify: Notify
    ) -> str:
        """Recreate the environment that was lost with its node; return the path of its Python, or "" on failure."""
        python = ""
        on_progress(_step_of(f"Recreating {remembered.title} as it was on the lost node"))
        # Install the folder's requirements second and separately: if they fail, the previous packages are already
        # restored.
        orders = [remembered.to_order()]
        if set(needs.lines) - set(remembered.requirements):
            orders.append({"requirements": list(needs.lines)})
        for order in orders:
            try:
                made = await self._make(order, on_progress)
            except (EnvironmentFailed, BadInput) as error:
                instead = "without them" if python else "with the worker's own Python"
                await _notify(f"{error.message} The kernel starts {instead}.", on_progress, notify, error.code)
                return python
            python = str(made["path"])
            for note in made["notes"]:
                await _notify(note, on_progress, notify, EnvironmentFailed.code)
        return python

    async def _make(self, order: Mapping[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        assert self._call
        made = await make_environment(self._call, {"framework": self._framework, **order}, on_progress)
        await asyncio.to_thread(self._memory.save, made)
        return made

    async def _learn(self, call: Call) -> None:
        try:
            while self._is_due:
                self._is_due = False
                for each in (await call("environments", {"framework": self._framework}))["environments"]:
                    await asyncio.to_thread(self._memory.save, each)
        except TpuError as error:
            log.info("what is installed in %s is not known: %s", self._framework, error)
        finally:
            self._learning = None


def _show(needs: FolderNeeds, on_progress: OnProgress) -> None:
    if needs.fault:
        on_progress(_step_of(f"{needs.source} in the notebook's folder cannot be used: {needs.fault}"))
    if needs.lines:
        on_progress(
            _step_of(f"{needs.source} in the notebook's folder requires {', '.join(map(without_user, needs.lines))}")
        )
    if needs.left_out:
        on_progress(_step_of(f"{needs.source}: skipped on the worker: {', '.join(needs.left_out)}"))


async def _notify(text: str, on_progress: OnProgress, notify: Notify, error_code: str) -> None:
    on_progress({**_step_of(text), "error_code": error_code})
    await notify(text)


def _step_of(text: str) -> dict[str, Any]:
    return {"phase": _PHASE, "message": text, "fraction": None}


def lost_packages_notice(codes: Iterable[str]) -> str:
    """Return a notice about packages that these cells had installed in a lost node's system Python, or "" if none.

    These packages are not part of an environment, so they are not restored.

    >>> lost_packages_notice(["x = 1"])
    ''
    >>> lost_packages_notice(["x = 1\n%pip install einops", "!uv pip install a@https://me@example.org/a.whl"])[:75]
    "Lost with the node: packages that cells had installed in the node's own Pyt"
    """
    found = dict.fromkeys(without_user(line)[:_LONGEST_INSTALL] for code in codes for line in _INSTALL.findall(code))
    if not found:
        return ""
    lines = "; ".join([*found][:_MOST_INSTALLS])
    more = f" and {len(found) - _MOST_INSTALLS} more" if len(found) > _MOST_INSTALLS else ""
    return (
        "Lost with the node: packages that cells had installed in the node's own Python: "
        f"{lines}{more}. Run these cells again. (An environment is restored automatically.)"
    )
