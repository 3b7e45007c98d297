"""Let a slice's workers meet before a framework starts: all must be ready and know the coordinator's port.

A framework waits for its other processes in C++ code, which can't be interrupted. Therefore, the workers first meet
here, in Python: an error names the missing workers, a firewall between workers is detected, and an interrupt ends the
wait. Afterwards, each worker reports its devices to worker 0, which shows one report for the slice.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from jupyter_tpu.errors import AcceleratorFailed, Text
from jupyter_tpu.notebook.node.this_slice import ThisSlice
from jupyter_tpu.notebook.tpu_init.ports import free_port, who_listens

PORTS = range(8484, 8488)
"""Ports on which worker 0 waits for the other workers; it uses the first free one. JAX uses 8482."""

COORDINATOR_PORT = 8482
"""The port of JAX's coordinator. JAX can't choose a free port itself."""

# How long to wait for the other workers. They first import the framework, which may take a minute from a cold disk.
_MEETS_WITHIN_S = 300.0
_CONNECTS_WITHIN_S = 10.0
_GREETS_WITHIN_S = 5.0
_TRIES_EVERY_S = 0.2
_LONGEST_LINE = 1024 * 1024


class Meeting:
    """The connections between the workers of a slice after they have met.

    Attributes:
        port: the port of the framework's coordinator on worker 0; all workers have the same value.
    """

    def __init__(self, place: ThisSlice, others: Mapping[int, _Line], port: int) -> None:
        self.place = place
        self.port = port
        self._others = others

    @property
    def note(self) -> str:
        """Why the coordinator does not use its usual port; empty if it does."""
        if self.port == COORDINATOR_PORT:
            return ""
        return Text(
            "port {usual} of worker 0 is in use by {process}, so the coordinator uses port {port}",
            usual=COORDINATOR_PORT,
            process=who_listens(COORDINATOR_PORT) or Text("another process"),
            port=self.port,
        )

    def gather(self, own: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Send this worker's report to worker 0; return all reports on worker 0, and [] on any other worker.

        The method returns when all workers have reported, so a worker that continues can rely on the other workers.

        Raises:
            AcceleratorFailed: a worker failed after the meeting.
        """
        if self.place.worker:
            self._others[0].send(own)
            if self._others[0].receive() is None:
                raise _left_by_worker_0()
            return []
        answers = [own, *(self._answer_of(worker) for worker in sorted(self._others))]
        for line in self._others.values():
            line.send({})
        return answers

    def _answer_of(self, worker: int) -> Mapping[str, Any]:
        answer = self._others[worker].receive()
        if answer is None:
            raise AcceleratorFailed(
                Text("Worker {worker} did not start the framework.", worker=worker),
                hint="Read the worker's output, then restart the kernel and run %tpu_init again.",
            )
        return answer


@contextmanager
def meeting(place: ThisSlice) -> Iterator[Meeting]:
    """Wait until all workers have connected.

    Raises:
        AcceleratorFailed: a worker did not connect within the time limit, or can't reach worker 0.
    """
    with ExitStack() as lines:
        yield _host(place, lines) if place.worker == 0 else _join(place, lines)


# -- worker 0


def _host(place: ThisSlice, lines: ExitStack) -> Meeting:
    listener = lines.enter_context(_listen(place.address))
    others: dict[int, _Line] = {}
    end = time.monotonic() + _MEETS_WITHIN_S
    while len(others) < place.workers - 1:
        listener.settimeout(max(0.1, end - time.monotonic()))
        try:
            line = lines.enter_context(_Line(listener.accept()[0]))
        except TimeoutError:
            raise _missing(set(range(1, place.workers)) - set(others)) from None
        worker = _greeted_by(line, place)
        if worker is None:
            line.close()
        else:
            # a worker that connects again has given up on its first connection
            others[worker] = line
    port = free_port(place.address, COORDINATOR_PORT)
    for line in others.values():
        line.send({"port": port})
    return Meeting(place, others, port)


def _listen(address: str) -> socket.socket:
    for port in PORTS:
        with suppress(OSError):
            return socket.create_server((address, port))
    raise AcceleratorFailed(
        Text("Worker 0 cannot listen on {address}: the ports {ports} are taken.", address=address, ports=_PORT_NAMES),
        hint="End the processes that use these ports, then run %tpu_init again.",
    )


def _greeted_by(line: _Line, place: ThisSlice) -> int | None:
    """Return the number of the worker that has connected, or None if the peer is not a worker of this slice."""
    line.settimeout(_GREETS_WITHIN_S)
    greeting = line.receive()
    if greeting is None or greeting.get("kernel_id") != place.kernel_id:
        return None
    line.settimeout(None)
    line.send({"kernel_id": place.kernel_id})
    worker = greeting.get("worker")
    return worker if isinstance(worker, int) and 0 < worker < place.workers else None


def _missing(workers: set[int]) -> AcceleratorFailed:
    return AcceleratorFailed(
        Text(
            "These workers were not ready for %tpu_init within {minutes} minutes: {workers}.",
            workers=", ".join(map(str, sorted(workers))),
            minutes=int(_MEETS_WITHIN_S // 60),
        ),
        hint="Read the output of these workers: the framework may not be installed there. Then run %tpu_init again.",
    )


# -- the other workers


def _join(place: ThisSlice, lines: ExitStack) -> Meeting:
    line = lines.enter_context(_reached(place))
    answer = line.receive()
    if answer is None:
        raise _left_by_worker_0()
    return Meeting(place, {0: line}, int(answer["port"]))


def _left_by_worker_0() -> AcceleratorFailed:
    return AcceleratorFailed(
        "%tpu_init has ended on worker 0, so this worker cannot start the framework.",
        hint="Read the output of worker 0, then run %tpu_init again.",
    )


def _reached(place: ThisSlice) -> _Line:
    """Return a connection to worker 0; retry for some time, because worker 0 may start listening later."""
    end = time.monotonic() + _MEETS_WITHIN_S
    while True:
        for port in PORTS:
            line = _try(place, port)
            if line is not None:
                return line
        if time.monotonic() > end:
            raise AcceleratorFailed(
                Text(
                    "Worker {worker} did not find worker 0 at {address}, ports {ports}.",
                    worker=place.worker,
                    address=place.address,
                    ports=_PORT_NAMES,
                ),
                hint="Read the output of worker 0, then run %tpu_init again.",
            )
        time.sleep(_TRIES_EVERY_S)


def _try(place: ThisSlice, port: int) -> _Line | None:
    try:
        line = _Line(socket.create_connection((place.address, port), timeout=_CONNECTS_WITHIN_S))
    except TimeoutError:
        raise _walled_off(place, port) from None
    except ConnectionRefusedError:
        return None
    except OSError as error:  # there is no route, or a firewall rejects the connection
        raise _walled_off(place, port, str(error)) from error
    with ExitStack() as on_failure:
        on_failure.callback(line.close)
        line.settimeout(_CONNECTS_WITHIN_S)
        line.send({"kernel_id": place.kernel_id, "worker": place.worker})
        answer = line.receive()
        # another program is listening at this address, or worker 0 of another kernel
        if answer is None or answer.get("kernel_id") != place.kernel_id:
            return None
        line.settimeout(None)
        on_failure.pop_all()
    return line


def _walled_off(place: ThisSlice, port: int, raw: str = "") -> AcceleratorFailed:
    return AcceleratorFailed(
        Text(
            "Worker {worker} cannot reach worker 0 at {address}, port {port}.",
            worker=place.worker,
            address=place.address,
            port=port,
        ),
        exists="A firewall seems to block connections between the workers. The framework would fail for the same "
        "reason.",
        hint="Allow all TCP ports between the workers in the firewall rules of the node's VPC network.",
        raw=raw,
    )


_PORT_NAMES = f"{PORTS[0]} to {PORTS[-1]}"


class _Line:
    """A connection that carries one JSON object per line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._connection.close()

    def settimeout(self, seconds: float | None) -> None:
        """Set the time limit for each message, in seconds; None means no limit."""
        self._connection.settimeout(seconds)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; drop it if the connection is closed."""
        with suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None if the peer disconnects, is too slow, or sends an invalid message."""
        with suppress(OSError, ValueError):
            message = json.loads(self._file.readline(_LONGEST_LINE))
            return message if isinstance(message, dict) else None
        return None
