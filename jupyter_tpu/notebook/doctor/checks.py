"""The doctor's checks on a worker: pure functions from facts to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_tpu import __version__
from jupyter_tpu.diagnostics import FAULT, OK, UNKNOWN, WARNING, Finding
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import Text, TpuError, joined
from jupyter_tpu.frameworks import TITLES, python_range, release_of, runtime_version_fits
from jupyter_tpu.notebook.display import message_of
from jupyter_tpu.notebook.tpu_init.diagnosis import CHOOSE_NODE, install_command, install_hint
from jupyter_tpu.notebook.tpu_init.known_errors import RESTART
from jupyter_tpu.notebook.tpu_init.library_versions import LIBRARIES, libtpu_mismatch

if TYPE_CHECKING:
    from jupyter_tpu.notebook.doctor.worker_facts import Facts
    from jupyter_tpu.notebook.node.this_worker import ThisWorker

AGENT, CHIPS, LOCK_FILE, GUARD = Text("agent"), Text("chips"), Text("lock file"), Text("guard")
AUTOSTOP, RUNTIME_VERSION, ENVIRONMENT = Text("auto-stop"), Text("runtime version"), Text("environment")
VARIABLES, FALL_BACK, NODE = Text("variables"), Text("fallback"), Text("node")
DISK, CLOCK = Text("disk"), Text("clock")

Findings = Iterator[Finding]
Answer = Mapping[str, Any]

_GIB = 2**30
# Report a fault if less disk space than this is free: there is hardly any room for another package or checkpoint.
_LEAST_DISK_BYTES = 2 * _GIB
# Show a warning if less than this share of the disk is free.
_LITTLE_DISK = 0.1
# Smallest clock difference to report, the same as `cloud.cloud_clock.WRONG_S`: an HTTP date has whole seconds, and a
# response may take a while.
_MOST_CLOCK_S = 30.0


# -- the agent and its responses


def examine_agent(facts: Facts) -> Findings:
    """Check the agent, the processes that use the chips, the guard, auto-stop and the runtime version."""
    yield from _judged(facts, AGENT, "status", _agent)
    yield from _judged(facts, CHIPS, "who", lambda answer: _holders(facts, answer))
    yield from _judged(facts, LOCK_FILE, "who", _lock_file)
    yield from _judged(facts, GUARD, "activity", _guard)
    yield from _judged(facts, AUTOSTOP, "activity", _autostop)
    yield from _judged(facts, RUNTIME_VERSION, "node", lambda answer: _runtime_version(facts, answer))


def _judged(facts: Facts, check: str, name: str, judge: Callable[[Answer], Findings]) -> Findings:
    """Return the findings for one response from the agent. A missing or unreadable response is also a finding."""
    answer = facts.answers[name]
    if isinstance(answer, TpuError):
        # If the agent doesn't respond, all checks lack data; only the agent's own check reports that as a fault.
        state = FAULT if check == AGENT else UNKNOWN
        hint = answer.hint if isinstance(answer.hint, Text) or not answer.hint else Text(answer.hint)
        found = Finding(check=check, state=state, text=message_of(answer), fix=hint)
        yield found if answer.hint else found.fixed_by("ask-again")
        return
    try:
        # collect the findings in a list first, so that an incomplete response yields no findings
        yield from list(judge(answer))
    except (LookupError, TypeError, ValueError, AttributeError):
        text = Text("This version can't read the agent's response.")
        yield Finding(check=check, state=UNKNOWN, text=text).fixed_by("ask-again")


def _agent(answer: Answer) -> Findings:
    version = str(answer["version"])
    duration, kernels = duration_text(answer["uptime_s"]), len(answer["kernels"])
    running = Text("1 kernel") if kernels == 1 else Text("{count} kernels", count=kernels)
    known = {"version": version, "duration": duration, "kernels": running}
    if version == __version__:
        text = Text("jupyter_tpu {version}, up for {duration}, {kernels}.")
        yield Finding(check=AGENT, state=OK, text=text.with_arguments(**known))
    else:
        text = Text("jupyter_tpu {version}, up for {duration}, {kernels}; this kernel has {own}.")
        found = Finding(check=AGENT, state=WARNING, text=text.with_arguments(**known, own=__version__))
        yield found.fixed_by("replace-agent")


def _holders(facts: Facts, answer: Answer) -> Findings:
    holders = answer["holders"]
    if not holders:
        yield Finding(check=CHIPS, state=OK, text=Text("No process uses the chips."))
    for holder in holders:
        name = holder["notebook"] or holder["command"] or Text("unknown")
        if holder["pid"] == facts.pid:
            yield Finding(check=CHIPS, state=OK, text=Text("This kernel uses the chips."))
        else:
            text = Text(
                "Process {pid} of {user} uses the chips: {name}.",
                pid=holder["pid"],
                user=holder["user"] or Text("another user"),
                name=name,
            )
            yield Finding(check=CHIPS, state=WARNING, text=text).fixed_by("end-process", pid=holder["pid"])


def _lock_file(answer: Answer) -> Findings:
    lock, holders = answer["lock_file"], answer["holders"]
    path = lock["path"]
    if lock["is_held"] and not holders:
        text = Text("{path} is held by a process that is not visible to this kernel.", path=path)
        fix = Text(
            "The process may be in a container or belong to another user. Find it with `sudo lsof -w {path}`.",
            path=path,
        )
        yield Finding(check=LOCK_FILE, state=WARNING, text=text, fix=fix)
    elif lock["is_there"] and not lock["is_held"]:
        # libtpu opens the file for writing, so a leftover blocks only users who do not own it.
        text = Text("{path} is a leftover lock file. It blocks only other users of this machine.", path=path)
        fix = Text("If libtpu cannot open the file, delete it with `sudo rm {path}`.", path=path)
        yield Finding(check=LOCK_FILE, state=OK, text=text, fix=fix)
    else:
        text = (
            Text("{path} is held by the process that uses the chips.")
            if lock["is_held"]
            else Text("There is no {path}.")
        )
        text = text.with_arguments(path=path)
        yield Finding(check=LOCK_FILE, state=OK, text=text)


def _guard(answer: Answer) -> Findings:
    guard = answer["guard"]
    if _has_no_rules(answer):
        text = Text("The guard is waiting for rules: this node has received none yet.")
        yield Finding(check=GUARD, state=UNKNOWN, text=text).fixed_by("send-rules")
        return
    state = {"armed": OK, "off": WARNING, "cannot": WARNING}.get(guard["state"], UNKNOWN)
    found = Finding(check=GUARD, state=state, text=_guard_text(guard))
    if guard["state"] == "off":
        found = found.fixed_by("set-rules")
    elif guard["state"] == "cannot":
        fix = Text(
            "Auto-stop on your own computer and the cloud's deadline still work. To use the guard, recreate the "
            "node with the scope cloud-platform."
        )
        found = replace(found, fix=fix)
    yield found


_GUARD_STATES = {"armed": Text("on"), "off": Text("off"), "cannot": Text("can't stop the node")}


def _guard_text(guard: Mapping[str, Any]) -> Text:
    state = _GUARD_STATES.get(guard["state"], guard["state"])
    return Text("{state}: {detail}.", state=state, detail=guard["detail"])


def _has_no_rules(answer: Answer) -> bool:
    """Return whether the node has received no rules; its owner's computer may still have rules for the node."""
    return answer.get("has_rules", True) is False and answer["ends_in_s"] is None


def _autostop(answer: Answer) -> Findings:
    if _has_no_rules(answer):
        text = Text("This node has received no auto-stop rules yet; its owner's computer may have some.")
        yield Finding(check=AUTOSTOP, state=UNKNOWN, text=text).fixed_by("send-rules")
        return
    rules = answer["rules"]
    lengths = (
        (Text("after {duration} idle"), rules["idle_after_s"]),
        (Text("after {duration} of session time"), rules["session_s"]),
        (Text("due in {duration}"), answer["ends_in_s"]),
    )
    known = [
        text.with_arguments(duration=duration_text(length_s)) for text, length_s in lengths if length_s is not None
    ]
    if known:
        text = Text("Auto-stop of this node: {when}.", when=joined(known, ", "))
        yield Finding(check=AUTOSTOP, state=OK, text=text)
    else:
        text = Text("This node has no auto-stop rule.")
        yield Finding(check=AUTOSTOP, state=WARNING, text=text).fixed_by("set-rules")


def _runtime_version(facts: Facts, answer: Answer) -> Findings:
    check = RUNTIME_VERSION
    if not answer:
        text = Text("The runtime version of this node is unknown.")
        fix = Text(
            "Start a Jupyter server with jupyter_tpu on your own machine: it sends this data while it is connected."
        )
        yield Finding(check=check, state=UNKNOWN, text=text, fix=fix)
        return
    found = str(answer["data"]["runtime_version"])
    # Without a framework, compare only the node's type.
    for framework in facts.installed or ("",):
        if why := runtime_version_fits(facts.worker.accelerator_type, found, framework):
            yield Finding(check=check, state=FAULT, text=why, fix=Text("Recreate the node with one of these versions."))
            return
    if known_type := facts.worker.accelerator_type:
        text = Text("{version} supports {type}.", version=found, type=known_type)
    else:
        text = Text("{version}; the accelerator type is unknown.", version=found)
    yield Finding(check=check, state=OK, text=text)


# -- the kernels' Python


def examine_environment(facts: Facts) -> Findings:
    """Check Python, the frameworks and their versions, environment variables, and whether a framework uses the CPU."""
    yield from _frameworks(facts)
    for framework in facts.installed:
        yield from _versions(facts, framework)
    yield from _variables(facts)
    yield from _fall_back(facts)


def _frameworks(facts: Facts) -> Findings:
    python = f"Python {facts.python[0]}.{facts.python[1]} ({facts.executable})"
    if not facts.installed:
        fix = install_hint(Text("To install JAX, run `{install}`."), "jax", facts.worker)
        text = Text("{python} has no framework for TPUs.", python=python)
        yield Finding(check=ENVIRONMENT, state=WARNING, text=text, fix=fix)
    elif len(facts.installed) > 1:
        *first, last = (TITLES[each] for each in facts.installed)
        text = Text(
            "{python} has {first} and {last}, and each needs its own libtpu.",
            python=python,
            first=", ".join(first),
            last=last,
        )
        yield Finding(check=ENVIRONMENT, state=WARNING, text=text).fixed_by("make-environment")
    else:
        text = Text("{python} with {framework}.", python=python, framework=TITLES[facts.installed[0]])
        yield Finding(check=ENVIRONMENT, state=OK, text=text)


def _versions(facts: Facts, framework: str) -> Findings:
    versions, title = facts.versions[framework], TITLES[framework]
    own = versions[LIBRARIES[framework][0]]
    release, install = release_of(framework, own), install_command(framework, facts.worker)
    check = Text("versions of {framework}", framework=title)
    found = (Text("{name} {version}", name=name, version=it or Text("missing")) for name, it in versions.items())
    listed = joined(found, ", ")
    # The checks are ordered from certain faults to mere suspicions. Report only the first finding.
    if not versions["libtpu"] and not facts.worker.is_emulated:
        yield Finding(
            check=check, state=FAULT, text=Text("libtpu is missing: {versions}.", versions=listed), fix=install
        )
    elif mismatch := libtpu_mismatch(framework, versions, facts.requirements[framework]):
        yield Finding(check=check, state=FAULT, text=mismatch, fix=install)
    elif release is None:
        text = Text("{versions}: this version has not been tested.", versions=listed)
        yield Finding(check=check, state=UNKNOWN, text=text)
    elif not release.fits(facts.python):
        text = Text("{release} requires Python {pythons}.", release=release.title, pythons=python_range(release))
        yield Finding(check=check, state=WARNING, text=text).fixed_by("make-environment")
    else:
        text = Text("{versions} (emulated on the CPU).") if facts.worker.is_emulated else Text("{versions}.")
        yield Finding(check=check, state=OK, text=text.with_arguments(versions=listed))


_UNSET = Text("Remove the variable from the kernel's environment, then restart the kernel.")


def _variables(facts: Facts) -> Findings:
    found = list(_suspicious(facts.environ, facts.worker))
    yield from found
    if not found:
        yield Finding(
            check=VARIABLES, state=OK, text=Text("No environment variable prevents frameworks from using the chips.")
        )


def _suspicious(environ: Mapping[str, str], worker: ThisWorker) -> Findings:
    """Find environment variables that mislead a framework. On an emulated worker, they may select the CPU."""
    platforms, is_emulated = environ.get("JAX_PLATFORMS", ""), worker.is_emulated
    if platforms and "tpu" not in platforms.split(",") and not is_emulated:
        yield _variable(
            FAULT, Text("{variable} prevents JAX from using the TPU.", variable=f"JAX_PLATFORMS={platforms}")
        )
    if environ.get("PJRT_DEVICE", "TPU") != "TPU" and not is_emulated:
        device = f"PJRT_DEVICE={environ['PJRT_DEVICE']}"
        yield _variable(FAULT, Text("{variable} prevents PyTorch/XLA from using the TPU.", variable=device))
    # On a single worker, the variable does no harm.
    if environ.get("TPU_SKIP_MDS_QUERY") and worker.workers > 1 and not is_emulated:
        text = Text(
            "TPU_SKIP_MDS_QUERY prevents JAX from finding the other workers of the slice. JAX sets this "
            "variable if it finds no chip."
        )
        yield _variable(WARNING, text)
    if flags := [each for each in environ.get("XLA_FLAGS", "").split() if each.startswith("--xla_tpu_")]:
        text = Text(
            "XLA_FLAGS contains {flags}: XLA terminates the process if it finds a libtpu flag.", flags=" ".join(flags)
        )
        fix = Text("Move libtpu's flags to LIBTPU_INIT_ARGS, then restart the kernel.")
        yield Finding(check=VARIABLES, state=FAULT, text=text, fix=fix)
    if environ.get("ALLOW_MULTIPLE_LIBTPU_LOAD") == "1":
        text = Text("ALLOW_MULTIPLE_LIBTPU_LOAD lets two processes use the chips, which may crash both.")
        yield _variable(WARNING, text)
    for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"):
        if environ.get(name):
            text = Text("{variable} limits frameworks to these chips.", variable=f"{name}={environ[name]}")
            yield _variable(WARNING, text)


def _variable(state: str, text: Text) -> Finding:
    return Finding(check=VARIABLES, state=state, text=text, fix=_UNSET)


def _fall_back(facts: Facts) -> Findings:
    for framework, platform in facts.platforms.items():
        title = TITLES[framework]
        if platform == "tpu":
            yield Finding(check=FALL_BACK, state=OK, text=Text("{framework} computes on the TPU.", framework=title))
        elif facts.worker.is_emulated:
            text = Text("{framework} computes on the CPU, as on any emulated node.", framework=title)
            yield Finding(check=FALL_BACK, state=OK, text=text)
        else:
            text = Text(
                "{framework} computes on the {platform} in this kernel, not on the TPU.",
                framework=title,
                platform=platform,
            )
            yield Finding(check=FALL_BACK, state=FAULT, text=text, fix=RESTART)


# -- the machine


def examine_machine(facts: Facts) -> Findings:
    """Check the disks, the clock, and whether this machine is a TPU node."""
    if not facts.worker.is_on_node:
        yield Finding(check=NODE, state=FAULT, text=Text("This kernel does not run on a TPU node."), fix=CHOOSE_NODE)
    for folder in facts.read_only:
        # Linux remounts a file system read-only after an I/O error; a new node has a new disk.
        fix = Text("Save your work elsewhere and recreate the node. A disk becomes read-only if it has errors.")
        text = Text("{folder} is not writable.", folder=folder)
        yield Finding(check=DISK, state=FAULT, text=text, fix=fix)
    for folder, (free, total) in facts.disks.items():
        yield _disk(folder, free, total)
    yield _clock(facts)


def _disk(folder: str, free: int, total: int) -> Finding:
    text = Text(
        "{free} of {total} GiB are free in {folder}.",
        free=f"{free / _GIB:.1f}",
        total=f"{total / _GIB:.1f}",
        folder=folder,
    )
    if free < _LEAST_DISK_BYTES:
        fix = Text("Delete what you don't need: old checkpoints, ~/.cache/uv, ~/.cache/pip, /tmp/tpu_logs.")
        return Finding(check=DISK, state=FAULT, text=text, fix=fix)
    state = WARNING if free < _LITTLE_DISK * total else OK
    return Finding(
        check=DISK,
        state=state,
        text=text,
        fix="" if state == OK else Text("Delete files that you don't need: the disk will be full soon."),
    )


def _clock(facts: Facts) -> Finding:
    ahead_s = facts.clock_ahead_s
    if ahead_s is None:
        text = Text("The machine's metadata server did not return the time.")
        return Finding(check=CLOCK, state=UNKNOWN, text=text)
    if abs(ahead_s) <= _MOST_CLOCK_S:
        return Finding(
            check=CLOCK, state=OK, text=Text("This machine's clock agrees with the cloud's to within a few seconds.")
        )
    text = Text("This machine's clock is {duration} behind the cloud's, so the cloud refuses its tokens.")
    if ahead_s > 0:
        text = Text("This machine's clock is {duration} ahead of the cloud's, so the cloud refuses its tokens.")
    text = text.with_arguments(duration=duration_text(abs(ahead_s)))
    return Finding(check=CLOCK, state=WARNING, text=text, fix="sudo systemctl restart chrony")
