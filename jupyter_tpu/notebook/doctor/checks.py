"""The doctor's checks on a worker: functions from facts to findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_tpu._version import __version__
from jupyter_tpu.diagnostics import FAULT, OK, UNKNOWN, WARNING, Finding
from jupyter_tpu.durations import duration_text
from jupyter_tpu.errors import TpuError
from jupyter_tpu.frameworks import TITLES, python_range, release_of, runtime_version_fits
from jupyter_tpu.notebook.tpu_init.diagnosis import CHOOSE_NODE, install_command
from jupyter_tpu.notebook.tpu_init.known_errors import RESTART
from jupyter_tpu.notebook.tpu_init.library_versions import LIBRARIES, libtpu_mismatch

if TYPE_CHECKING:
    from jupyter_tpu.notebook.doctor.worker_facts import Facts
    from jupyter_tpu.notebook.node.this_worker import ThisWorker

Findings = Iterator[Finding]
Answer = Mapping[str, Any]

_GIB = 2**30
# A fault below this: there is hardly room for another package or checkpoint.
_LEAST_DISK_BYTES = 2 * _GIB
# A warning below this share of the disk.
_LITTLE_DISK = 0.1
# The same limit as `cloud.cloud_clock.WRONG_S`: an HTTP date has whole seconds, and an answer may take a while.
_MOST_CLOCK_S = 30.0


# -- the agent, and its answers


def examine_agent(facts: Facts) -> Findings:
    """Check the agent, the processes that use the chips, the guard, auto-stop and the runtime version."""
    yield from _judged(facts, "agent", "status", _agent)
    yield from _judged(facts, "chips", "who", lambda answer: _holders(facts, answer))
    yield from _judged(facts, "lock file", "who", _lock_file)
    yield from _judged(facts, "guard", "activity", _guard)
    yield from _judged(facts, "auto-stop", "activity", _autostop)
    yield from _judged(facts, "runtime version", "node", lambda answer: _runtime_version(facts, answer))


def _judged(facts: Facts, check: str, name: str, judge: Callable[[Answer], Findings]) -> Findings:
    """Check one response from the agent; a missing or unreadable response gives a finding too."""
    answer = facts.answers[name]
    if isinstance(answer, TpuError):
        # One silent agent leaves every check without an answer; only the agent's own check calls that a fault.
        state = FAULT if check == "agent" else UNKNOWN
        found = Finding(check=check, state=state, text=answer.message, fix=answer.hint)
        yield found if answer.hint else found.fixed_by("ask-again")
        return
    try:
        # as a list, so that an answer that breaks off yields no partial findings
        yield from list(judge(answer))
    except (LookupError, TypeError, ValueError, AttributeError):
        text = "This version can't read the agent's response."
        yield Finding(check=check, state=UNKNOWN, text=text).fixed_by("ask-again")


def _agent(answer: Answer) -> Findings:
    version = str(answer["version"])
    text = f"jupyter_tpu {version}, up for {duration_text(answer['uptime_s'])}, {len(answer['kernels'])} kernels"
    if version == __version__:
        yield Finding(check="agent", state=OK, text=f"{text}.")
    else:
        text = f"{text}; this kernel has {__version__}."
        yield Finding(check="agent", state=WARNING, text=text).fixed_by("replace-agent")


def _holders(facts: Facts, answer: Answer) -> Findings:
    holders = answer["holders"]
    if not holders:
        yield Finding(check="chips", state=OK, text="No process uses the chips.")
    for holder in holders:
        name = holder["notebook"] or holder["command"] or "unknown"
        if holder["pid"] == facts.pid:
            yield Finding(check="chips", state=OK, text="This kernel uses the chips.")
        else:
            text = f"Process {holder['pid']} of {holder['user'] or 'another user'} uses the chips: {name}."
            yield Finding(check="chips", state=WARNING, text=text).fixed_by("end-process", pid=holder["pid"])


def _lock_file(answer: Answer) -> Findings:
    lock, holders = answer["lock_file"], answer["holders"]
    path = lock["path"]
    if lock["is_held"] and not holders:
        text = f"{path} is held by a process that cannot be seen from here."
        fix = f"It may be in a container or belong to another user: sudo lsof -w {path}"
        yield Finding(check="lock file", state=WARNING, text=text, fix=fix)
    elif lock["is_there"] and not lock["is_held"]:
        # libtpu opens the file for writing, so a leftover keeps out only users who do not own it.
        text = f"{path} is left over and unused: it only blocks other users of this machine."
        fix = f"If libtpu cannot open it: sudo rm {path}"
        yield Finding(check="lock file", state=OK, text=text, fix=fix)
    else:
        text = f"{path} is held by the process that uses the chips." if lock["is_held"] else f"There is no {path}."
        yield Finding(check="lock file", state=OK, text=text)


def _guard(answer: Answer) -> Findings:
    guard = answer["guard"]
    if _has_no_rules(answer):
        text = "It waits for rules: this node has received none yet."
        yield Finding(check="guard", state=UNKNOWN, text=text).fixed_by("send-rules")
        return
    state = {"armed": OK, "off": WARNING, "cannot": WARNING}.get(guard["state"], UNKNOWN)
    found = Finding(check="guard", state=state, text=f"{guard['state']}: {guard['detail']}.")
    if guard["state"] == "off":
        found = found.fixed_by("set-rules")
    elif guard["state"] == "cannot":
        fix = (
            "Auto-stop on your own computer and the cloud's deadline still work. For the guard, create the node with "
            "the scope cloud-platform."
        )
        found = replace(found, fix=fix)
    yield found


def _has_no_rules(answer: Answer) -> bool:
    """Return whether the node has received no rules; its owner's computer may still have some for it."""
    return answer.get("has_rules", True) is False and answer["ends_in_s"] is None


def _autostop(answer: Answer) -> Findings:
    if _has_no_rules(answer):
        text = "This node has received no auto-stop rules yet; its owner's computer may have some."
        yield Finding(check="auto-stop", state=UNKNOWN, text=text).fixed_by("send-rules")
        return
    rules = answer["rules"]
    lengths = {"idle": rules["idle_after_s"], "in session": rules["session_s"]}
    known = [f"after {duration_text(length)} {what}" for what, length in lengths.items() if length is not None]
    if answer["ends_in_s"] is not None:
        known.append(f"now due in {duration_text(answer['ends_in_s'])}")
    if known:
        yield Finding(check="auto-stop", state=OK, text=f"This node ends {', '.join(known)}.")
    else:
        text = "This node has no auto-stop rule."
        yield Finding(check="auto-stop", state=WARNING, text=text).fixed_by("set-rules")


def _runtime_version(facts: Facts, answer: Answer) -> Findings:
    check = "runtime version"
    if not answer:
        text = "The runtime version of this node is unknown here."
        fix = "A Jupyter server with jupyter_tpu on your own machine sends it while it is connected."
        yield Finding(check=check, state=UNKNOWN, text=text, fix=fix)
        return
    found = str(answer["data"]["runtime_version"])
    # Without a framework only the node's type is compared.
    for framework in facts.installed or ("",):
        if why := runtime_version_fits(facts.worker.accelerator_type, found, framework):
            yield Finding(check=check, state=FAULT, text=why, fix="Recreate the node with one of those.")
            return
    yield Finding(check=check, state=OK, text=f"{found} on {facts.worker.accelerator_type or 'an unknown type'}.")


# -- the kernels' Python


def examine_environment(facts: Facts) -> Findings:
    """Check Python, the frameworks and their versions, the variables, and a fall-back to the CPU."""
    yield from _frameworks(facts)
    for framework in facts.installed:
        yield from _versions(facts, framework)
    yield from _variables(facts)
    yield from _fall_back(facts)


def _frameworks(facts: Facts) -> Findings:
    python = f"Python {facts.python[0]}.{facts.python[1]} ({facts.executable})"
    if not facts.installed:
        fix = f"For JAX: {install_command('jax', facts.worker)}"
        yield Finding(check="environment", state=WARNING, text=f"{python} has no framework for TPUs.", fix=fix)
    elif len(facts.installed) > 1:
        names = " and ".join(TITLES[each] for each in facts.installed)
        text = f"{python} has {names}, and each needs its own libtpu."
        yield Finding(check="environment", state=WARNING, text=text).fixed_by("make-environment")
    else:
        yield Finding(check="environment", state=OK, text=f"{python} with {TITLES[facts.installed[0]]}.")


def _versions(facts: Facts, framework: str) -> Findings:
    versions, title = facts.versions[framework], TITLES[framework]
    own = versions[LIBRARIES[framework][0]]
    release, install = release_of(framework, own), install_command(framework, facts.worker)
    check = f"versions of {title}"
    listed = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    # From certain faults to mere suspicions; only the first that applies is reported.
    if not versions["libtpu"] and not facts.worker.is_emulated:
        yield Finding(check=check, state=FAULT, text=f"libtpu is missing: {listed}.", fix=install)
    elif mismatch := libtpu_mismatch(framework, versions, facts.requirements[framework]):
        yield Finding(check=check, state=FAULT, text=mismatch, fix=install)
    elif release is None:
        yield Finding(check=check, state=UNKNOWN, text=f"{listed}: this version is not in the list of tested ones.")
    elif not release.fits(facts.python):
        text = f"{release.title} is made for Python {python_range(release)}."
        yield Finding(check=check, state=WARNING, text=text).fixed_by("make-environment")
    else:
        stands_in = " (emulated: the CPU stands in)" if facts.worker.is_emulated else ""
        yield Finding(check=check, state=OK, text=f"{listed}{stands_in}.")


_UNSET = "Remove it from the kernel's environment, then restart the kernel."


def _variables(facts: Facts) -> Findings:
    found = list(_suspicious(facts.environ, facts.worker))
    yield from found
    if not found:
        yield Finding(check="variables", state=OK, text="No variable keeps a framework from using the chips.")


def _suspicious(environ: Mapping[str, str], worker: ThisWorker) -> Findings:
    """Find variables that mislead a framework; on an emulated worker, variables that select the CPU are correct."""
    platforms, is_emulated = environ.get("JAX_PLATFORMS", ""), worker.is_emulated
    if platforms and "tpu" not in platforms.split(",") and not is_emulated:
        yield _variable(FAULT, f"JAX_PLATFORMS={platforms} keeps JAX from using the TPU.")
    if environ.get("PJRT_DEVICE", "TPU") != "TPU" and not is_emulated:
        yield _variable(FAULT, f"PJRT_DEVICE={environ['PJRT_DEVICE']} keeps PyTorch/XLA from using the TPU.")
    # On a single worker it does no harm.
    if environ.get("TPU_SKIP_MDS_QUERY") and worker.workers > 1 and not is_emulated:
        text = "TPU_SKIP_MDS_QUERY keeps JAX from finding the other workers of the slice. JAX sets it without a chip."
        yield _variable(WARNING, text)
    if flags := [each for each in environ.get("XLA_FLAGS", "").split() if each.startswith("--xla_tpu_")]:
        text = f"XLA_FLAGS has {' '.join(flags)}: XLA ends the process when it finds a libtpu flag."
        fix = "Put libtpu's flags into LIBTPU_INIT_ARGS, then restart the kernel."
        yield Finding(check="variables", state=FAULT, text=text, fix=fix)
    if environ.get("ALLOW_MULTIPLE_LIBTPU_LOAD") == "1":
        yield _variable(WARNING, "ALLOW_MULTIPLE_LIBTPU_LOAD lets two processes use the chips, and both may crash.")
    for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"):
        if environ.get(name):
            yield _variable(WARNING, f"{name}={environ[name]} limits frameworks to only these chips.")


def _variable(state: str, text: str) -> Finding:
    return Finding(check="variables", state=state, text=text, fix=_UNSET)


def _fall_back(facts: Facts) -> Findings:
    for framework, platform in facts.platforms.items():
        title = TITLES[framework]
        if platform == "tpu":
            yield Finding(check="fall-back", state=OK, text=f"{title} computes on the TPU.")
        elif facts.worker.is_emulated:
            yield Finding(check="fall-back", state=OK, text=f"{title} computes on the CPU, as on any emulated node.")
        else:
            text = f"{title} computes on the {platform} in this kernel, not on the TPU."
            yield Finding(check="fall-back", state=FAULT, text=text, fix=RESTART)


# -- the machine


def examine_machine(facts: Facts) -> Findings:
    """Check that this is a TPU node, its disks and its clock."""
    if not facts.worker.is_on_node:
        yield Finding(check="node", state=FAULT, text="This kernel does not run on a TPU node.", fix=CHOOSE_NODE)
    for folder in facts.read_only:
        # Linux remounts a file system read-only after an I/O error; a new node has a new disk.
        fix = "Save your work elsewhere. A disk with errors becomes read-only: recreate the node."
        yield Finding(check="disk", state=FAULT, text=f"{folder} is not writable.", fix=fix)
    for folder, (free, total) in facts.disks.items():
        yield _disk(folder, free, total)
    yield _clock(facts)


def _disk(folder: str, free: int, total: int) -> Finding:
    text = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB are free in {folder}."
    if free < _LEAST_DISK_BYTES:
        fix = "Delete what you don't need: old checkpoints, ~/.cache/uv, ~/.cache/pip, /tmp/tpu_logs."
        return Finding(check="disk", state=FAULT, text=text, fix=fix)
    state = WARNING if free < _LITTLE_DISK * total else OK
    return Finding(check="disk", state=state, text=text, fix="" if state == OK else "It will be full soon.")


def _clock(facts: Facts) -> Finding:
    ahead_s = facts.clock_ahead_s
    if ahead_s is None:
        return Finding(check="clock", state=UNKNOWN, text="The machine's metadata server did not return the time.")
    if abs(ahead_s) <= _MOST_CLOCK_S:
        return Finding(check="clock", state=OK, text="It agrees with the cloud's clock to within a few seconds.")
    side = "ahead of" if ahead_s > 0 else "behind"
    text = f"It is {duration_text(abs(ahead_s))} {side} the cloud's: tokens are refused."
    return Finding(check="clock", state=WARNING, text=text, fix="sudo systemctl restart chrony")
