"""``jupyter tpu emulator replay-check``.

Replay recorded cases against the emulator and show the responses that differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_tpu.emulator.control.client import ControlRefused, EmulatorControl, authorization
from jupyter_tpu.emulator.recording.cases import Case, CaseUnreadable, read_cases
from jupyter_tpu.emulator.recording.wildcards import Bindings, differences, filled_in, kind_of, placeholders
from jupyter_tpu.standard_streams import write_answer

_PATIENCE_S = 60  # real seconds to wait for one response; our choice
_STAND_INS = {
    "email": "somebody@example.com",
    "ip": "192.0.2.1",
    "key": "AAAAC3NzaC1lZDI1NTE5AAAAIGNvIGtleSwgYnV0IG9mIHRoZSBmb3JtIG9mIG9uZQ",
    "metadata": "replayed",
    "secret": "replayed",
    "time": "2026-01-01T00:00:00Z",
    "uid": "1",
}
"""Values to send for placeholders that no response has bound yet."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command ``replay-check``."""
    options = argparse.ArgumentParser(
        prog="jupyter tpu emulator replay-check",
        description="Replay a recording against the emulator, in the recorded order and at the recorded pace "
        "(virtual time), and print the responses that differ.",
        epilog="The exit status is 1 if a response differs or the recording is empty, otherwise 0.",
    )
    options.add_argument("folder", type=Path, metavar="FOLDER", help="folder that `record` wrote")
    options.add_argument(
        "--emulator",
        default="",
        metavar="URL",
        help="REST address of a running emulator with an empty project (default: start one)",
    )
    options.add_argument(
        "--pace", type=_pace, default=1.0, help="virtual seconds per recorded second (default: %(default)g)"
    )
    options.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return options


def _pace(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError("must be more than 0 and at most 100000")
    return value


def main(argv: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = parser().parse_args(argv)
    try:
        cases = read_cases(options.folder)
        if not cases:
            return _complain(f"no cases in {options.folder}")
        with _emulator(options.emulator) as place:
            found = {case.name: lines for case, lines in replayed(cases, place, options.pace)}
    except (CaseUnreadable, ControlRefused) as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"No emulator responds at {options.emulator or 'its address'}: {error}")
    # a closed pipe must not hide differences
    status = write_answer(json.dumps({"cases": found}) + "\n" if options.json else _for_people(found))
    return 1 if any(found.values()) else status


@dataclass(frozen=True, slots=True)
class EmulatorAddress:
    """An emulator's REST address and token file. If `token_file` is None, an environment variable may specify it."""

    url: str
    token_file: str | None = None


def replayed(cases: Sequence[Case], place: EmulatorAddress, pace: float) -> Iterator[tuple[Case, list[str]]]:
    """Yield each case with the differences in the emulator's response. Raises OSError if there is no response."""
    control = EmulatorControl(place.url, place.token_file)
    # the emulator's project replaces the recorded one
    bound: Bindings = {"project-1": str(control.info()["project"])}
    was_paused = control.clock()["paused"]
    control.pause()  # only the cases advance the clock, so that each run uses the same times
    played_s = 0.0
    try:
        for case in cases:
            # cases are numbered in the order in which their requests ended, so a case may have started before the
            # previous case
            if case.after_s > played_s:
                control.advance((case.after_s - played_s) * pace)
                played_s = case.after_s
            yield case, list(_differences(case, place, bound))
    finally:
        if not was_paused:
            control.resume()


def _differences(case: Case, place: EmulatorAddress, bound: Bindings) -> Iterator[str]:
    status, answer = _answer_to(place, case, bound)
    if status != case.status:
        yield f"status: expected {case.status}, got {status}"
    yield from differences(case.answer, answer, bound)


def _answer_to(place: EmulatorAddress, case: Case, bound: Bindings) -> tuple[int, Any]:
    body = None if case.body is None else json.dumps(_sent(case.body, bound)).encode()
    # cases are stored decoded, so that they are readable
    path = quote(_sent(case.path, bound), safe="/:?&=%$;,@-")
    headers = {"Content-Type": "application/json", **authorization(place.token_file)}
    request = urllib.request.Request(place.url.rstrip("/") + path, data=body, headers=headers, method=case.verb)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            return answer.status, _decoded(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _decoded(error.read())


def _sent(value: Any, bound: Bindings) -> Any:
    names = set(placeholders(json.dumps(value))) - bound.keys()
    stand_ins = {name: _stand_in(name, bound) for name in names if _stand_in(name, bound)}
    return filled_in(value, {**bound, **stand_ins})


def _stand_in(name: str, bound: Bindings) -> str:
    kind = kind_of(name)
    return bound["project-1"] if name == "project-number-1" else _STAND_INS.get(kind, "")


def _decoded(content: bytes) -> Any:
    if not content.strip():
        return None
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


@contextlib.contextmanager
def _emulator(url: str) -> Iterator[EmulatorAddress]:
    """Yield the given address; without one, start an emulator for the duration of the context and yield its address."""
    if url:
        yield EmulatorAddress(url)
        return
    with tempfile.TemporaryDirectory(prefix="jt-replay-") as folder:
        command = [sys.executable, "-m", "jupyter_tpu.emulator", "--json", "--state-dir", folder]
        # run the emulator as a process, like a user; its port and workers are released when it exits
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                ready = _ready(process.stdout.readline())
                yield EmulatorAddress(ready["rest"], ready.get("token_file", ""))
            finally:
                process.terminate()


def _ready(line: str) -> dict[str, Any]:
    if not line:
        raise OSError("the emulator that was started for this replay has exited")
    return dict(json.loads(line))


def _for_people(found: dict[str, list[str]]) -> str:
    texts = [f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in found.items() if lines]
    same = sum(not lines for lines in found.values())
    return "".join(texts) + f"{same} of {len(found)} cases are answered as recorded.\n"


def _complain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return 1
