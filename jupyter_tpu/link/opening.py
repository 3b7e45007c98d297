"""From a fresh connection to a dialogue with the agent of its worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.errors import AgentBroken, TpuError, WorkerUnreachable
from jupyter_tpu.link.dialogue import Dialogue
from jupyter_tpu.link.interfaces import ByteStream, Connection
from jupyter_tpu.link.worker import PATIENCE_S, Memory, OnProgress, Ready, open_channel, prepare_worker, wish_for
from jupyter_tpu.wire.frames import ProtocolError

log = logging.getLogger(__name__)

_AGENT_DELAYS_S = (0.0, 0.2, 0.5, 1.0, 2.0)
SILENCE_S = 12.0
"""A path on which nothing was heard for so long is dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a link wants of its worker.

    Attributes:
        python: the Python that kernels run on; empty for the worker's own choice.
        silence_s: a path on which nothing was heard for so long is taken as dead.
        patience_s: a worker that says nothing for so long while it is prepared is given up.
    """

    on_progress: OnProgress
    python: str = ""
    silence_s: float = SILENCE_S
    patience_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True)
class Opened:
    """A dialogue that has begun, what the agent says of itself, and whether the worker was prepared for it."""

    dialogue: Dialogue
    agent: Mapping[str, Any]
    is_prepared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """How a dialogue begins: our hello, and what is sent behind it."""

    hello: Mapping[str, Any]
    follow_up: Callable[[Dialogue], None]


async def open_dialogue(connection: Connection, greeting: Greeting, demands: Demands, memory: Memory) -> Opened:
    """Greet the agent where it was last; else prepare the worker first.

    An agent that crashes at its start is given a few chances.

    Raises:
        AgentBroken: it does not start, and this is the end of its log; or it speaks nonsense.
        EnvironmentFailed, WorkerUnreachable: from `prepare_worker`.
    """
    if opened := await _greet_where_it_was(connection, greeting, demands, memory):
        return opened
    for attempt, delay_s in enumerate(_AGENT_DELAYS_S):
        await asyncio.sleep(delay_s)
        ready = await prepare_worker(
            connection,
            python=demands.python,
            on_progress=demands.on_progress,
            explain=attempt > 0,
            patience_s=demands.patience_s,
        )
        if opened := await _greet(await _channel(connection, ready), greeting, demands):
            memory.keep(replace(ready, log=""))
            return opened
    raise AgentBroken(
        "The agent on the worker does not start.",
        exists="Kernels there keep running.",
        hint="The end of its log is in the details. It may help to remove ~/.jupyter-tpu/agent and "
        "~/.jupyter-tpu/env/agent on the worker (by `jupyter tpu ssh`): they are rebuilt.",
        raw=ready.log,
    )


async def _greet_where_it_was(
    connection: Connection, greeting: Greeting, demands: Demands, memory: Memory
) -> Opened | None:
    """Saves the three round trips of a preparation, and its Python's start, on a worker that needs none.

    Saves one more by not waiting for the agent's hello, which an agent that was well before will say.
    """
    ready = memory.ready
    if ready is None or ready.wish != wish_for(demands.python):
        return None
    try:
        channel = await connection.open_unix(ready.socket)
    except (TpuError, OSError) as error:
        log.info("no agent where it was: %s", error)
        return None
    return await _greet(channel, greeting, demands, is_eager=True)


async def prepare_behind(connection: Connection, demands: Demands, memory: Memory) -> None:
    """Prepare a worker that was greeted without it: what broke since is made anew, for the next kernel.

    Without success the next connection prepares first, and says why it cannot.
    """
    try:
        ready = await prepare_worker(
            connection, python=demands.python, on_progress=demands.on_progress, patience_s=demands.patience_s
        )
        memory.keep(ready)
    except (WorkerUnreachable, OSError) as error:
        log.info("the worker was not looked at: %s", error)
    except TpuError as error:
        log.warning("the worker is not as it was: %s", error)
        memory.keep(None)


async def _channel(connection: Connection, ready: Ready) -> ByteStream | None:
    try:
        return await open_channel(connection, ready.socket)
    except (TpuError, OSError) as error:  # an agent that died takes its socket along; of a cut the next attempt tells
        log.info("no way to the agent: %s", error)
        return None


async def _greet(
    channel: ByteStream | None, greeting: Greeting, demands: Demands, *, is_eager: bool = False
) -> Opened | None:
    if channel is None:
        return None
    dialogue = Dialogue(channel, demands.silence_s)
    try:
        dialogue.say_hello(greeting.hello)
        if is_eager:
            greeting.follow_up(dialogue)
        agent = await dialogue.hear_hello()
        if not is_eager:
            greeting.follow_up(dialogue)
        return Opened(dialogue, agent, is_prepared=not is_eager)
    except (EOFError, OSError):
        dialogue.close()
        return None
    except ProtocolError as error:
        dialogue.close()
        raise broken_agent(error) from error
    except BaseException:
        dialogue.close()
        raise


def broken_agent(error: ProtocolError) -> AgentBroken:
    """What breaking the protocol means to the user."""
    return AgentBroken(
        "What answers on the worker does not speak the agent's language.",
        exists="Kernels there keep running.",
        hint="If another version of jupyter-tpu started the agent, use that version, or restart the node.",
        raw=str(error),
    )
