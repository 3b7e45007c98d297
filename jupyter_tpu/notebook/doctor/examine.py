"""Examine this worker in the kernels' Python: gather the facts and run the checks on them.

The examination does not start a framework, import a package or change anything. Run as a program, the module prints the
findings as one JSON line, for the agent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from shutil import disk_usage
from typing import Any

from jupyter_tpu.diagnostics import Finding
from jupyter_tpu.errors import TpuError, WorkerUnreachable
from jupyter_tpu.notebook.doctor.checks import examine_agent, examine_environment, examine_machine
from jupyter_tpu.notebook.doctor.worker_facts import Facts
from jupyter_tpu.notebook.node.agent_call import call_all
from jupyter_tpu.notebook.node.this_worker import this_worker
from jupyter_tpu.notebook.tpu_init.choice import imported_frameworks, installed_frameworks
from jupyter_tpu.notebook.tpu_init.library_versions import installed_versions, requirements_of
from jupyter_tpu.worker_clock import wall_clock

# Timeout for the agent and the metadata server: an agent on a busy node must not be mistaken for a broken one.
_ANSWER_S = 10.0
_QUESTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "status": ("status", {}),
    "who": ("who", {}),
    "activity": ("activity", {}),
    "node": ("told", {"kind": "node"}),
}


def examine(environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Run all checks, which takes about 10 s at most, and return their findings."""
    facts = gather(environ)
    return [*examine_agent(facts), *examine_environment(facts), *examine_machine(facts)]


def gather(environ: Mapping[str, str]) -> Facts:
    """Collect facts about this machine and this process, and the agent's responses."""
    worker, installed, clock = this_worker(environ), installed_frameworks(), list[float]()
    # Query the metadata server and the agent in parallel, because both may be slow.
    asking = threading.Thread(target=_read_clock, args=(environ, clock), daemon=True)
    if worker.is_on_node:
        asking.start()
    answers, disks = _ask(environ), _disks()
    if worker.is_on_node:
        asking.join(_ANSWER_S)
    return Facts(
        worker=worker,
        environ=dict(environ),
        python=sys.version_info[:2],
        executable=sys.executable,
        pid=os.getpid(),
        installed=installed,
        versions={name: installed_versions(name) for name in installed},
        requirements={name: requirements_of(name) for name in installed},
        platforms=_platforms(),
        disks=disks,
        read_only=[folder for folder in disks if not os.access(folder, os.W_OK)],
        clock_ahead_s=clock[0] if clock else None,
        answers=answers,
    )


def _ask(environ: Mapping[str, str]) -> Mapping[str, Mapping[str, Any] | TpuError]:
    try:
        return call_all(_QUESTIONS, environ, patience_s=_ANSWER_S)
    except WorkerUnreachable as error:
        return dict.fromkeys(_QUESTIONS, error)


def _platforms() -> dict[str, str]:
    """Return the platform that JAX uses, or {} if JAX is not initialised.

    A query before that would initialise JAX and acquire the chips.
    """
    if "jax" in imported_frameworks():
        bridge = sys.modules.get("jax._src.xla_bridge")
        with suppress(AttributeError, RuntimeError):
            if getattr(bridge, "_backends", None):
                return {"jax": str(sys.modules["jax"].default_backend())}
    return {}


def _disks() -> dict[str, tuple[int, int]]:
    # check the two folders that fill up: home with checkpoints and caches, /tmp with libtpu's logs
    found = dict[str, tuple[int, int]]()
    for folder in (Path.home(), Path("/tmp")):
        with suppress(OSError):
            usage = disk_usage(folder)
            found[str(folder)] = usage.free, usage.total
    return found


def _read_clock(environ: Mapping[str, str], found: list[float]) -> None:
    """Measure how far this machine's clock is ahead of the metadata server's ``Date`` header.

    The header is precise to one second only.
    """
    host = environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    request = urllib.request.Request(
        f"http://{host}/computeMetadata/v1/instance/id", headers={"Metadata-Flavor": "Google"}
    )
    # Ignore a proxy from the environment: it can't reach the metadata server, whose address is local to the machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError, TypeError, ValueError), direct.open(request, timeout=_ANSWER_S) as answer:
        found.append(wall_clock() - parsedate_to_datetime(answer.headers["Date"]).timestamp())


def main() -> None:
    """Print the findings as one JSON line."""
    sys.stdout.write(json.dumps([each.to_json() for each in examine()]) + "\n")
