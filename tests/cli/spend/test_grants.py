"""`jupyter tpu grant` and `audit`, and what `create` says of who pays."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.cli import main

MAIL = """\
> 64 spot Cloud TPU v5e chips in zone us-central1-a
> 5 on-demand Cloud TPU v2-8 device(s) in zone us-central1-f
> some spot Cloud TPU v6e chips in zone us-east1-d
> This free **90-day** trial is only available for new Cloud TPUs
"""


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


TODAY = today()  # or yesterday, when the test runs: a suite takes a while
TERM = ("--starts-on", TODAY, "--days", "90")
V5E = ("--type", "v5litepod-8", "--zone", "us-central1-a")
ROW = "64 spot v5e us-central1-a"


Ask = Callable[..., tuple[int, str, str]]


def command(capsys: pytest.CaptureFixture[str]) -> Ask:
    def tpu(*argv: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        code = main(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return tpu


@pytest.fixture
def offline(capsys: pytest.CaptureFixture[str], data_dir: Path) -> Ask:
    """`jupyter tpu` in this process; nobody answers as the cloud."""
    return command(capsys)


@pytest.fixture
def tpu(offline: Ask, emulator: Any, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """`jupyter tpu` in this process, on an emulated cloud."""
    monkeypatch.setenv("JUPYTER_TPU_ENDPOINT", emulator.grpc)
    monkeypatch.setenv("JUPYTER_TPU_PROJECT", emulator.project)
    return offline


def listed(tpu: Ask) -> list[dict[str, Any]]:
    code, said, _ = tpu("grant", "list", "--json")
    assert code == 0
    found: list[dict[str, Any]] = json.loads(said)["grants"]
    return found


def test_a_pasted_mail_becomes_a_grant(tpu: Ask, tmp_path: Path) -> None:
    (tmp_path / "mail.txt").write_text(MAIL)
    from_mail = ("--from", str(tmp_path / "mail.txt"))
    code, _, said = tpu("grant", "add", "trc", *from_mail, *TERM)
    assert code == 1
    assert "Could not read 1 line of the email: “some spot Cloud TPU v6e chips in zone us-east1-d”" in said
    assert "--skip-unread" in said
    code, _, said = tpu("grant", "add", "trc", *from_mail, "--skip-unread")
    assert code == 1
    assert "The start date of the grant is missing." in said
    assert listed(tpu) == []

    code, _, said = tpu("grant", "add", "trc", *from_mail, *TERM, "--skip-unread")
    assert code == 0
    assert "read: 20 on-demand v2 chips in us-central1-f (v2-8 only)" in said
    assert "5 × v2-8 was read as 20 chips of v2" in said
    assert "warning: not read: “some spot Cloud TPU v6e chips in zone us-east1-d”" in said

    (grant,) = listed(tpu)
    assert (grant["name"], grant["is_over"]) == ("trc", False)
    assert grant["days_left"] in (89, 90)
    assert [(row["chips"], row["used"], row["free"]) for row in grant["rows"]] == [(64, 0, 64), (20, 0, 20)]
    assert "64 v5e chips" in tpu("grant")[1]

    (entry,) = json.loads(tpu("audit", "--limit", "1", "--json")[1])["entries"]
    assert (entry["action"], entry["subject"], entry["detail"]["kind"]) == ("grant", "trc", "trc")
    assert "The user entered the grant: 84 chips" in tpu("audit")[1]

    assert tpu("grant", "remove", "trc")[0] == 0
    assert listed(tpu) == []
    assert "There is no grant trc" in tpu("grant", "remove", "trc")[2]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], int]]:
    """A user at a terminal, who types answers ahead."""
    user, stdin = pty.openpty()
    with os.fdopen(stdin) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield lambda text: os.write(user, text)
    os.close(user)


def test_a_user_at_a_terminal_confirms_the_dates_and_what_was_not_read(
    tpu: Ask, tmp_path: Path, answer: Callable[[bytes], int]
) -> None:
    (tmp_path / "mail.txt").write_text(f"Date: Mon, 16 Nov 2026 10:12:00 +0000\n\n{MAIL.replace('90-day', 'short')}")
    add = ("grant", "add", "trc", "--from", str(tmp_path / "mail.txt"))
    answer(b"n\ny\n")
    code, _, said = tpu(*add)
    assert (code, "The grant was not confirmed." in said, listed(tpu)) == (1, True, [])
    assert "proposed: a term of 30 days, TRC's shortest: no clear term was found" in said
    question = (
        "Save the grant trc, from 2026-11-16 to 2026-12-15 without the unread lines (their chips count as billed)?"
    )
    assert question in said
    code, _, said = tpu(*add)
    assert (code, question in said) == (0, True)
    assert [(grant["starts_on"], grant["ends_on"]) for grant in listed(tpu)] == [("2026-11-16", "2026-12-15")]

    code, _, said = tpu(*add, "--skip-unread", *TERM)
    assert (code, "Save the grant" in said) == (0, False)


def test_a_script_says_yes_to_the_term_that_is_proposed(tpu: Ask, tmp_path: Path) -> None:
    (tmp_path / "mail.txt").write_text(f"Date: Mon, 16 Nov 2026 10:12:00 +0000\n\n{ROW}")
    add = ("grant", "add", "trc", "--from", str(tmp_path / "mail.txt"))
    code, _, said = tpu(*add)
    assert code == 1
    assert "Add --days N or --ends-on DATE. TRC's shortest term is 30 days; --yes accepts it." in said
    assert tpu(*add, "--yes")[0] == 0
    assert [grant["ends_on"] for grant in listed(tpu)] == ["2026-12-15"]


def test_a_mail_comes_through_a_pipe(data_dir: Path) -> None:
    date = f"Date: {formatdate()}\n".encode()
    asked = subprocess.run(
        [sys.executable, "-m", "jupyter_tpu.cli", "grant", "add", "trc", "--from", "-", "--skip-unread", "--json"],
        input=date + MAIL.encode() + b"\xff",
        env={**os.environ, "JUPYTER_TPU_ENDPOINT": "127.0.0.1:9", "JUPYTER_TPU_PROJECT": "demo-project"},
        capture_output=True,
        timeout=240,
    )
    assert asked.returncode == 0, asked.stderr
    assert b"read: a term of 90 days" in asked.stderr
    assert json.loads(asked.stdout)["starts_on"] in (TODAY, today())


def test_a_mail_without_a_grant_writes_nothing_down(tpu: Ask, tmp_path: Path) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_bytes(b"64 spot Cloud TPU v9z chips in zone us-central1-a\xff\n\x1b]52;c;eA==\x07")
    code, _, said = tpu("grant", "add", "trc", "--from", str(mail), *TERM)
    assert code == 1
    assert "Grants for 'v9z' are not supported" in said
    assert not set(said) & set("\x1b\x07")
    assert listed(tpu) == []
    assert tpu("grant", "add", "trc", "--from", str(tmp_path / "no-such-file"), *TERM)[0] == 1


def test_a_create_says_who_pays_before_it_asks(tpu: Ask, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('load("gs://my-bucket/data")')
    assert "Never covered by a grant" not in tpu("create", "before", *V5E)[2]
    assert tpu("grant", "add", "trc", "--row", ROW, *TERM)[0] == 0
    _, said, told = tpu("create", "outside", *V5E)
    lines = told.splitlines()
    assert lines[0] == (
        "outside in us-central1-a will be billed: $9.60/h (your TRC grant trc covers v5e there only as spot)."
    )
    assert "Never covered by a grant: the boot disk" in lines[1]
    assert lines[2].startswith("Creating outside")
    assert "READY and costs $9.60/h" in said

    _, said, told = tpu("create", "inside", *V5E, "--spot", "--notebook", str(tmp_path / "train.py"))
    assert "The location of gs://my-bucket is unknown: the emulated cloud has no Cloud Storage." in told
    assert "inside in us-central1-a will be free under your TRC grant trc until" in told
    assert "READY and is free under your TRC grant trc" in said
    (grant,) = listed(tpu)
    assert (grant["rows"][0]["used"], grant["rows"][0]["free"]) == (8, 56)


UNPRICED = ("v6e-1", "southamerica-west1-a")
"""Offered as spot there, and no source has a price of it."""
FREE_ROW = "64 spot v6e southamerica-west1-a"


@pytest.mark.parametrize(
    "argv",
    [
        ("create", "free", "--type", UNPRICED[0], "--zone", UNPRICED[1]),
        ("search", "free", "--types", UNPRICED[0], "--zones", UNPRICED[1]),
        ("queue", "add", "free", "--type", UNPRICED[0], "--zone", UNPRICED[1]),
    ],
)
def test_a_node_that_a_grant_pays_for_needs_no_list_price(tpu: Ask, argv: tuple[str, ...]) -> None:
    assert tpu("budget", "set", "mine", "--usd", "5", "--per", "day")[0] == 0
    code, _, told = tpu(*argv, "--spot")
    assert code == 1
    assert "There is no list price for a spot v6e-1 in southamerica-west1-a, and no grant covers it." in told

    assert tpu("grant", "add", "trc", "--row", FREE_ROW, *TERM)[0] == 0
    code, _, told = tpu(*argv, "--spot")
    assert code == 0, told
    tpu("queue", "remove", "free", "--yes") if argv[0] == "queue" else tpu("delete", "free", "--yes")


@pytest.mark.parametrize("fault", [None, "api_disabled"])
def test_a_create_says_nothing_of_money_before_zone_and_api_are_right(
    tpu: Ask, emulator: Any, fault: str | None
) -> None:
    if fault:
        for method in ("ListLocations", "ListNodes", "ListAcceleratorTypes"):
            emulator.control.add_fault(method, fault, times=5)
    zone = "us-central1-a" if fault else "us-central1-z"
    for argv in (("create", "x"), ("queue", "add", "x")):
        code, _, told = tpu(*argv, "--type", "v5litepod-8", "--zone", zone)
        assert code == 1
        assert not {"billed", "$", "Creating", "READY"} & set(told.replace("$", " $ ").split())
        assert ("us-central1-z is not a Cloud TPU zone" in told) == (fault is None)


def test_grants_are_listed_while_the_cloud_is_away(tpu: Ask, emulator: Any) -> None:
    assert tpu("grant", "add", "trc", "--row", ROW, *TERM)[0] == 0
    emulator.control.add_fault("ListNodes", "permission_denied")
    code, said, told = tpu("grant")
    assert (code, said.count("unknown")) == (0, 2)
    assert "The number of chips in use is unknown" in told


def test_a_credit_is_an_amount_with_an_end(tpu: Ask) -> None:
    assert tpu("grant", "add", "welcome", "--credit", "300", "--ends-on", "2099-01-01")[0] == 1
    added = tpu("grant", "add", "welcome", "--credit", "300", "--days", "90", "--json")[1]
    assert json.loads(added)["usd"] == 300
    (grant,) = listed(tpu)
    assert (grant["kind"], grant["usd"], grant["rows"]) == ("credit", 300, [])
    assert grant["starts_on"] in (TODAY, today())
    assert "$300.00" in tpu("grant")[1]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("add",), "requires the name"),
        (("add", "trc"), "A grant requires chips or an amount"),
        (("add", "trc", "--row", ROW), "The start date of the grant is missing"),
        (("add", "trc", "--row", ROW, "--starts-on", TODAY), "The term of the grant is missing"),
        (("add", "trc", "--row", ROW, "--starts-on", "soon", "--days", "3"), "'soon' is not a valid first day"),
        (("add", "trc", "--row", ROW, "--starts-on", TODAY, "--days", "-3"), "'-3' is not a valid number of days"),
        (
            ("add", "trc", "--row", ROW, "--row", "64 spot v9z us-central1-a", *TERM),
            "Grants for 'v9z' are not supported",
        ),
        (("add", "a/b", "--row", ROW, *TERM), "is not a valid grant name"),
        (("add", "usd", "--credit", "nan", "--days", "90"), "is not a number"),
        (("add", "usd", "--credit", "-5", "--days", "90"), "-5 is not a valid amount"),
        (("list", "trc"), "does not take a name"),
        (("remove", "trc", "--days", "3"), "does not take --days"),
    ],
)
def test_what_makes_no_sense_is_refused_without_the_cloud(offline: Ask, argv: tuple[str, ...], why: str) -> None:
    code, _, said = offline("grant", *argv)
    assert code == 1
    assert why in said


def test_the_audit_log_wants_a_sensible_limit(offline: Ask) -> None:
    assert offline("audit", "--limit", "0")[0] == 1
