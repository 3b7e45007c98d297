"""The agent's method ``end_node``: stop or delete this worker's node at the request of one of its notebooks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from jupyter_tpu.agent.autostop.node_api import CannotEnd, OwnNode
from jupyter_tpu.agent.preemption.notices import Notices
from jupyter_tpu.autostop import ACTIONS
from jupyter_tpu.errors import BadInput, CloudRefused


class EndNodeMethod:
    """The method that stops or deletes the node; for `environ` see `OwnNode`."""

    def __init__(self, environ: Mapping[str, str], notices: Notices) -> None:
        self._node = OwnNode(environ)
        self._notices = notices

    async def end_node(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Stop or delete the node, depending on ``action``; with ``is_trial``, only check that it is possible.

        Returns the node's full name.

        Raises:
            BadInput: there is no such action.
            CloudRefused: this worker can't stop or delete the node.
        """
        action = params.get("action")
        if action not in ACTIONS:
            raise BadInput(f"{str(action)[:40]!r} is not an action that ends a node.", hint="Use stop or delete.")
        try:
            # Check first, because the check explains a missing scope better than the API's error does.
            name = await asyncio.to_thread(self._node.check)
            if not params.get("is_trial"):
                await asyncio.to_thread(self._node.end, str(action))
                self._notices.report_end(str(action))
        except CannotEnd as error:
            raise _refused(str(action), error) from error
        return {"node": name}


def _refused(action: str, error: CannotEnd) -> CloudRefused:
    # If the API refuses to stop the node, as it does for a slice, deleting it still works.
    other = "Delete it with %tpu delete, or run" if error.is_refused and action == "stop" else "Run"
    return CloudRefused(
        f"This node cannot stop or delete itself: {error}.",
        exists="The node is still running and billed.",
        hint=f"{other} `jupyter tpu {action} NODE` on your own machine.",
    )
