"""Start talking to the agent over a new connection. Prepare the worker first if needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jupyter_tpu.errors import AgentBroken, TpuError, WorkerUnreachable
from jupyter_tpu.link.dialogue import Dialogue
from jupyter_tpu.link.interfaces import ByteStream, Connection
from jupyter_tpu.link.preparation import (
    PATIENCE_S,
    OnProgress,
    PreparationCache,
    Ready,
    open_channel,
    preparation_key,
    prepare_worker,
)
from jupyter_tpu.wire.frames import ProtocolError

log = logging.getLogger(__name__)

# Delays before the attempts to start an agent: five attempts in about 4 s. If the agent crashes each time, the user
# then sees the end of its log.
_AGENT_DELAYS_S = (0.0, 0.2, 0.5, 1.0, 2.0)
SILENCE_S = 12.0
"""Seconds without received data after which a connection counts as dead.

A dead connection must be noticed within 15 s. 12 s are enough for three pings, and SSH's own keepalives give up after
the same time.
"""
# How long an agent that has just started may take for its hello, on a machine that starts several agents at once. SSH's
# own keepalives notice a dead connection earlier.
_FIRST_HELLO_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """A link's settings for preparing its worker and talking to the agent.

    Attributes:
        on_progress: called with each step of the preparation.
        python: the Python interpreter for kernels; empty to let the worker choose.
        silence_s: time without received data after which the connection counts as dead, in seconds.
        patience_s: time without progress after which the preparation is abandoned, in seconds.
    """

    on_progress: OnProgress
    python: str = ""
    silence_s: float = SILENCE_S
    patience_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True)
class Opened:
    """An open dialogue with an agent, the agent's description of itself, and whether the worker was just prepared."""

    dialogue: Dialogue
    agent: Mapping[str, Any]
    is_prepared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """The start of a dialogue: the client's hello, and a function that resends all pending requests after the hello."""

    hello: Mapping[str, Any]
    follow_up: Callable[[Dialogue], None]


async def open_dialogue(
    connection: Connection, greeting: Greeting, demands: LinkSettings, memory: PreparationCache
) -> Opened:
    """Greet the agent at its last known socket. If no agent is there, prepare the worker first.

    If the agent crashes on startup, the preparation is retried a few times.

    Raises:
        AgentBroken: the agent does not start (`raw` contains the end of its log), or violates the protocol.
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
            explain=attempt > 0,  # read the log only after a failure
            patience_s=demands.patience_s,
        )
        if opened := await _greet(await _channel(connection, ready), greeting, demands):
            memory.store(replace(ready, log=""))  # don't save old log lines on disk with the result
            return opened
    raise AgentBroken(
        "The agent on the worker did not start.",
        exists="Kernels there keep running.",
        hint="The details show the end of the agent's log. Remove ~/.jupyter-tpu/agent and "
        "~/.jupyter-tpu/env/agent on the worker (`jupyter tpu ssh`) and try again; both folders will be "
        "recreated.",
        raw=ready.log,
    )


async def _greet_where_it_was(
    connection: Connection, greeting: Greeting, demands: LinkSettings, memory: PreparationCache
) -> Opened | None:
    """Greet the agent at the socket from the last preparation. Return None if no agent is there.

    This saves the three round trips of a preparation and a Python start on the worker. Not waiting for the agent's
    hello saves one more round trip. An agent that responded before will usually send its hello.
    """
    ready = memory.ready
    # A different version of our code or of the kernels' Python needs a preparation first.
    if ready is None or ready.wish != preparation_key(demands.python):
        return None
    try:
        channel = await connection.open_unix(ready.socket)
    except (TpuError, OSError) as error:
        log.info("no agent where it was: %s", error)
        return None
    return await _greet(channel, greeting, demands, is_eager=True)


async def prepare_in_background(connection: Connection, demands: LinkSettings, memory: PreparationCache) -> None:
    """Prepare the worker after its agent was already contacted without preparation.

    Preparation fixes problems on the worker before the next kernel starts. If it fails, the next connection prepares
    the worker first and reports the reason.
    """
    try:
        ready = await prepare_worker(
            connection, python=demands.python, on_progress=demands.on_progress, patience_s=demands.patience_s
        )
        memory.store(ready)
    except (WorkerUnreachable, OSError) as error:
        log.info("the worker was not checked: %s", error)
    except TpuError as error:
        log.warning("the worker could not be prepared again: %s", error)
        memory.store(None)


async def _channel(connection: Connection, ready: Ready) -> ByteStream | None:
    try:
        return await open_channel(connection, ready.socket)
    except (TpuError, OSError) as error:  # a crashed agent has no socket; the next attempt detects a lost connection
        log.info("the agent's socket cannot be opened: %s", error)
        return None


async def _greet(
    channel: ByteStream | None, greeting: Greeting, demands: LinkSettings, *, is_eager: bool = False
) -> Opened | None:
    if channel is None:
        return None
    dialogue = Dialogue(channel, demands.silence_s)
    try:
        # Send all open frames with the hello, so that the replies arrive after one round trip.
        dialogue.send_hello(greeting.hello)
        if is_eager:
            greeting.follow_up(dialogue)
        agent = await dialogue.receive_hello(demands.silence_s if is_eager else _FIRST_HELLO_S)
        if not is_eager:
            greeting.follow_up(dialogue)
        return Opened(dialogue, agent, is_prepared=not is_eager)
    except (EOFError, OSError):  # the agent crashed during its start, or only its socket remained: prepare again
        dialogue.close()
        return None
    except ProtocolError as error:
        dialogue.close()
        raise broken_agent(error) from error
    except BaseException:
        dialogue.close()
        raise


def broken_agent(error: ProtocolError) -> AgentBroken:
    """Return the user-facing error for a protocol violation."""
    return AgentBroken(
        "A process on the worker responds, but does not use the agent's protocol.",
        exists="Kernels there keep running.",
        hint="If another version of jupyter-tpu started the agent, use that version, or restart the node.",
        raw=str(error),
    )
