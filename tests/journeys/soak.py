"""`make soak`: many seeded schedules of faults, and what became of each; money; then a long run for wear.

Prints a table with numbers, seeds and failures; ends with status 1 when there is a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path

from journey_place import Place, a_place
from journey_schedules import LINK_ACTS, SERVER_ACTS, Act, Notebook, play_on_link, play_on_server, schedule
from journey_wear import soak_for
from money_kills import kill, let_calls_fail
from run_all_schedules import play_run_all
from run_all_schedules import schedule as run_all_schedule

PLAYS = {"link": (play_on_link, LINK_ACTS), "server": (play_on_server, SERVER_ACTS)}
RUN_ALL = "run all, plain client"

MONEY = Path(__file__).parents[1] / "fleet" / "test_money_machine.py"


@dataclass
class Tally:
    """What became of the schedules of one kind of client."""

    kind: str
    sshd: str
    seeds: range
    seconds: float = 0.0
    acts: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)

    def row(self) -> str:
        good = len(self.seeds) - len(self.failures)
        seeds = f"{self.seeds.start}-{self.seeds.stop - 1}"
        told = ", ".join(map(str, self.failures)) or "none"
        return f"| {self.kind} | {self.sshd} | {len(self.seeds)} | {seeds} | {good} | {told} | {self.seconds:.0f} |"


def main() -> int:
    options = parsed()
    tallies = [tally for share in shares(options) if (tally := played(*share))]
    say("\n| client | sshd | schedules | seeds | as if nothing had happened | failed seeds | seconds |")
    say("| --- | --- | --- | --- | --- | --- | --- |")
    for tally in tallies:
        say(tally.row())
    for tally in tallies:
        say(f"{tally.kind}: " + ", ".join(f"{count} {act}" for act, count in tally.acts.most_common()))
    is_leaking = [
        bool(options.examples) and not money_is_kept(options.examples, options.seed),
        bool(options.kills) and not kills_are_survived(options.kills, options.seed),
    ]
    worn = soak_for(options.minutes * 60, say) if options.minutes else []
    for complaint in worn:
        say(f"WORN: {complaint}")
    return 1 if worn or any(is_leaking) or any(tally.failures for tally in tallies) else 0


def parsed() -> argparse.Namespace:
    options = argparse.ArgumentParser(description="Seeded schedules of faults, and a long run that watches for wear.")
    options.add_argument("--schedules", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0, help="the first seed")
    options.add_argument("--share", type=float, default=0.2, help="of pages on a Jupyter server; the rest are links")
    options.add_argument("--run-all", type=int, default=0, help="schedules of a plain client that runs all cells")
    options.add_argument("--sshd", choices=("embedded", "system"), default="embedded")
    options.add_argument("--examples", type=int, default=0, help="stories of user, cloud and clock about money")
    options.add_argument("--kills", type=int, default=0, help="kill -9 of commands and servers that change nodes")
    options.add_argument("--minutes", type=float, default=0.0, help="length of the run that watches for wear")
    return options.parse_args()


def shares(options: argparse.Namespace) -> list[tuple[str, str, range]]:
    pages = round(options.schedules * options.share)
    first, last = options.seed, options.seed + options.schedules
    return [
        ("link", options.sshd, range(first, last - pages)),
        ("server", options.sshd, range(last - pages, last)),
        (RUN_ALL, options.sshd, range(first, first + options.run_all)),
    ]


def played(kind: str, sshd: str, seeds: range) -> Tally | None:
    if not seeds:
        return None
    tally = Tally(kind, sshd, seeds)
    began = time.monotonic()
    with a_place("--sshd", sshd) as place:
        os.environ.update(place.environment)
        if kind != "link":
            place.start_server()
        asyncio.run(play_run_alls(place, tally) if kind == RUN_ALL else play_all(place, tally))
    tally.seconds = time.monotonic() - began
    return tally


async def play_all(place: Place, tally: Tally) -> None:
    play, acts = PLAYS[tally.kind]
    uncut, wrong = await play(place, [])
    assert wrong == [], wrong
    for seed in tally.seeds:
        chosen = schedule(seed, acts)
        tally.acts.update(act.what for act in chosen)
        note(tally, seed, " ".join(map(str, chosen)), await outcome(played_once(place, tally.kind, chosen, uncut)))


async def played_once(place: Place, kind: str, chosen: list[Act], uncut: Notebook) -> list[str]:
    play, _ = PLAYS[kind]
    _, wrong = await play(place, chosen, uncut)
    return wrong


async def play_run_alls(place: Place, tally: Tally) -> None:
    for seed in tally.seeds:
        chosen = run_all_schedule(seed)
        tally.acts.update(act.what for act in chosen.acts)
        note(tally, seed, str(chosen), await outcome(play_run_all(place, chosen)))


def note(tally: Tally, seed: int, chosen: str, complaint: str) -> None:
    if complaint:
        tally.failures[seed] = complaint
        say(f"FAILED {tally.kind} seed {seed}: {chosen}\n{complaint}")
    elif seed % 25 == 0:
        say(f"{tally.kind} seed {seed}: {len(tally.failures)} failures so far")


async def outcome(play: Awaitable[list[str]]) -> str:
    try:
        wrong = await play
    except Exception as error:  # noqa: BLE001 - one failed schedule is one line of the table
        before = f"{error.__context__!r}\n" if error.__context__ else ""
        return f"{before}{type(error).__name__}: {error}"
    return "\n".join(wrong)


def money_is_kept(examples: int, seed: int) -> bool:
    """Play so many stories; a failed one is printed as the steps of a regression test."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", f"--hypothesis-seed={seed}", str(MONEY)]
    done = subprocess.run(command, env={**os.environ, "JUPYTER_TPU_EXAMPLES": str(examples)}, check=False)
    outcome = "nothing leaked, no cap was broken" if done.returncode == 0 else "FAILED"
    say(f"money: {examples} stories, seed {seed}, {time.monotonic() - began:.0f} s: {outcome}")
    return done.returncode == 0


def kills_are_survived(kills: int, seed: int) -> bool:
    """Kill as many commands and servers, one after the other, on one cloud."""
    began, failed = time.monotonic(), list[int]()
    with a_place() as place:
        place.start_server()
        let_calls_fail(place, seed)
        for number in range(seed, seed + kills):
            chosen, wrong = kill(place, number)
            if wrong:
                failed.append(number)
                say(f"FAILED kill {number}: {chosen}\n" + "\n".join(wrong))
            elif number % 25 == 0:
                say(f"kill {number}: {len(failed)} failures so far")
    seconds = time.monotonic() - began
    say(f"kills: {kills}, seed {seed}, {seconds:.0f} s: failed {', '.join(map(str, failed)) or 'none'}")
    return not failed


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
