"""The mail of the TPU Research Cloud, as it is pasted."""

from __future__ import annotations

import re
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.accelerators import generations
from jupyter_tpu.money.grants import GrantRow, row_from_json
from jupyter_tpu.money.trc_mail import SHORTEST_TERM_DAYS, read_trc_mail

MAIL_2026 = """\
You have access to free Cloud TPUs

32 on-demand Cloud TPU v4 chips in zone us-central2-b
32 spot Cloud TPU v4 chips in zone us-central2-b
64 spot Cloud TPU v5e chips in zone europe-west4-b
64 spot Cloud TPU v5e chips in zone us-central1-a
64 spot Cloud TPU v6e chips in zone us-east1-d
64 spot Cloud TPU v6e chips in zone europe-west4-a

This free **90-day** trial is only available for new Cloud TPUs you create in the zones listed above. To avoid charges,
please be sure to create your Cloud TPUs in the appropriate zone.

While your Cloud TPUs are free, you'll still be charged for the rest of the GCP services you use. If you have a new
account, Google Cloud's $300 USD introductory credit may completely offset these costs.

Please note that demand for Cloud TPUs is high, so we can't guarantee you'll get to use all of your TPU quota. Google
reserves the right to reclaim TRC quota and TRC Cloud TPU capacity at any time.

If you have access to both on-demand and preemptible quotas, we recommend preferring on-demand and falling back to
preemptible. If you encounter an error message indicating that your quota is exhausted, confirm that you have deleted
any unused Cloud TPUs and/or Queued Resources.
"""
MAIL_2021 = """\
Thanks again for your interest in using Cloud TPUs to accelerate your machine learning research. Your Google Cloud
project my-project-231908 now has access to the following quota free of charge for 60 days:

5 on-demand Cloud TPU v3-8 device(s) in zone europe-west4-a

100 preemptible Cloud TPU v2-8 device(s) in zone us-central1-f

5 on-demand Cloud TPU v2-8 device(s) in zone us-central1-f
"""
LINE = "64 spot Cloud TPU v6e chips in zone us-east1-d"
ROW = GrantRow(chips=64, generation="v6e", spot=True, zone="us-east1-d")


def row(chips: int, generation: str, spot: bool, zone: str, device: str = "") -> GrantRow:
    return GrantRow(chips=chips, generation=generation, spot=spot, zone=zone, device=device)


def test_the_mail_of_2026_is_read() -> None:
    mail = read_trc_mail(MAIL_2026)
    assert mail.rows == (
        row(32, "v4", False, "us-central2-b"),
        row(32, "v4", True, "us-central2-b"),
        row(64, "v5e", True, "europe-west4-b"),
        row(64, "v5e", True, "us-central1-a"),
        row(64, "v6e", True, "us-east1-d"),
        row(64, "v6e", True, "europe-west4-a"),
    )
    assert (mail.days, mail.problems, mail.notes) == (90, (), ())


def test_the_devices_of_2021_become_chips_and_it_says_so() -> None:
    mail = read_trc_mail(MAIL_2021)
    assert mail.rows == (
        row(20, "v3", False, "europe-west4-a", "v3-8"),
        row(400, "v2", True, "us-central1-f", "v2-8"),
        row(20, "v2", False, "us-central1-f", "v2-8"),
    )
    assert (mail.days, mail.problems) == (60, ())
    assert "100 × v2-8 was read as 400 chips of v2." in mail.notes


@pytest.mark.parametrize(
    "text",
    [
        f"> {LINE}",
        f">> > - {LINE}.",
        f"  * **{LINE}**",
        f"1. {LINE}\r\n",
        f"| {LINE} |",
        f"• “{LINE}”,",
        f"# Quota: {LINE} (never promised)",
        "> 64 spot Cloud\n> TPU v6e chips in\n> zone us-east1-d",
        "64 spot Cloud TPU v6e chips in zone us-\neast1-d",
        "64 spot Cloud TPU v6e chips in zone us=\n-east1-d",
        "<ul><li>64 spot Cloud&nbsp;TPU <b>v6e</b> chips in zone us&#8209;east1&#8209;d</li></ul>",
        "<table><tr><td>64</td><td>spot</td><td>Cloud TPU v6e chips in zone us-east1-d</td></tr></table>",
        "64 preemptible Cloud TPU v6e chips in zone us\u2011east1\u2011d\u200b",
        "64 SPOT CLOUD TPU V6E CHIPS IN ZONE US-EAST1-D",
        "64 spot v6e us-east1-d",
        "64 spot Cloud TPU v6e chips in zone(s) us-east1-d",
        "64 spot Cloud TPU v6e chips<br>in zone(s) us-east1-d",
        "64=20spot Cloud TPU v6e=C2=A0chips in zone=20=\n us-east1-d",
        "You get 64 spot Cloud\nTPU v6e chips in\nzone us-east1-d",
        f"{LINE}\n\nYour TPUs are free for 30 days in the zones above.",
        f"{LINE}\n\nAm 3. Mai 2026 um 10:12 schrieb TRC:\n> {LINE}",
        f"您好，感谢您的申请：\n{LINE}\nこのメールは\u202e自動送信です。",
    ],
)
def test_what_surrounds_a_line_does_not_matter(text: str) -> None:
    mail = read_trc_mail(text)
    assert (mail.rows, mail.problems) == ((ROW,), ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("64 spot Cloud TPU v9z chips in zone us-east1-d", "Grants for 'v9z' are not supported"),
        ("64 spot Cloud TPU v6e chips in zone mars-north1-a", "'mars-north1-a' is not a Cloud TPU zone"),
        ("0 spot Cloud TPU v6e chips in zone us-east1-d", "'0' is not a number of chips"),
        ("999999999 spot Cloud TPU v6e chips in zone us-east1-d", "is not a number of chips"),
        ("99999999999999999999 spot Cloud TPU v6e chips in zone us-east1-d", "cannot be read"),
        ("-64 spot Cloud TPU v6e chips in zone us-east1-d", "cannot be read"),
        ("some spot Cloud TPU v6e chips in zone us-east1-d", "cannot be read"),
        ("64 spot Cloud TPU v6e chips in all zones", "cannot be read"),
        ("64 reserved Cloud TPU v6e chips in zone us-east1-d", "cannot be read"),
        ("5 on-demand Cloud TPU v2 devices in zone us-central1-f", "the size of the devices is missing"),
        ("5 on-demand Cloud TPU v2-7 devices in zone us-central1-f", "no such accelerator type"),
        (
            "5 on-demand Cloud TPU v2-8 chips in zone us-central1-f",
            "mixes the two forms: a number of chips, and a device",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, why: str) -> None:
    mail = read_trc_mail(f"{LINE}\n{text}\n")
    assert mail.rows == (ROW,)
    (problem,) = mail.problems
    assert why in problem
    assert text in problem


@pytest.mark.parametrize(
    "zones",
    [
        "us-east1-d and us-east5-b",
        "us-east1-d, us-east5-b",
        "us-east1-d, and us-east5-b",
        "us-east1-d,us-east5-b",
        "us-east1-d,\nus-east5-b",
        "us-east1-d / us-east5-b",
        "us-east1-d and in zone us-east5-b",
    ],
)
def test_several_zones_of_a_line_get_its_chips_each_and_it_says_so(zones: str) -> None:
    mail = read_trc_mail(f"64 spot Cloud TPU v6e chips in zones {zones}.")
    assert (mail.rows, mail.problems) == ((ROW, row(64, "v6e", True, "us-east5-b")), ())
    assert mail.notes == ("64 chips were read for each of us-east1-d, us-east5-b.",)


@pytest.mark.parametrize(
    "table",
    [
        "Type Zone Chips Model\nv6e us-east1-d 64 spot\nv5e us-central1-a 32 on demand",
        "| v6e | us-east1-d | 64 | spot |\n|---|---|---|---|\n| v5e | us-central1-a | 32 | on-demand |",
        "v6e\nus-east1-d\n64\nspot\nv5e\nus-central1-a\n32\non demand",
        "us-east1-d\nv6e\n64\nspot\nus-central1-a\nv5e\n32\non-demand",
        "<table><tr><td>\n<p>v6e</p></td>\n<td>us-east1-d</td>\n<td>64</td><td>spot</td></tr>\n<tr>\n<td>v5e</td>"
        "<td>us-central1-a</td><td>32</td>\n<td>on-demand</td></tr></table>",
        "64\tspot\tv6e\tus-east1-d\n32\ton-demand\tv5e\tus-central1-a",
    ],
)
def test_a_table_is_read_whatever_the_order_of_its_columns(table: str) -> None:
    mail = read_trc_mail(f"Your quota:\n{table}\nHave fun.")
    assert (mail.rows, mail.problems) == ((ROW, row(32, "v5e", False, "us-central1-a")), ())


def test_columns_in_another_order_are_noted() -> None:
    assert read_trc_mail("v6e us-east1-d 64 spot").notes == (
        "“v6e us-east1-d 64 spot” was read as 64 spot v6e chips in us-east1-d.",
    )


@pytest.mark.parametrize("line", ["v6e us-east1-d 64 32 spot", "64 spot v6e", "64 spot us-east1-d v6e v5e"])
def test_a_row_with_a_part_too_many_or_too_few_is_named(line: str) -> None:
    mail = read_trc_mail(f"{LINE}\nand this:\n{line}")
    assert mail.rows == (ROW,)
    assert mail.problems == (f"“{line}”: looks like a grant but cannot be read.",)


def test_a_mail_that_is_attached_to_another_is_read_with_its_own_day() -> None:
    inner, outer = EmailMessage(), EmailMessage()
    inner["Date"], outer["Date"] = "Mon, 16 Nov 2026 10:12:00 -0800", "Tue, 24 Nov 2026 08:00:00 +0100"
    inner.set_content("This email needs HTML.")
    inner.add_alternative(f"<p>{LINE}</p>", subtype="html", cte="base64")
    outer.set_content("For you.")
    outer.add_attachment(inner)
    mail = read_trc_mail(outer.as_string())
    assert (mail.rows, mail.sent_on, mail.problems) == ((ROW,), "2026-11-16", ())


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
@pytest.mark.parametrize("kind", ["plain", "html"])
def test_a_saved_mail_is_opened_and_has_its_day(encoding: str, kind: str) -> None:
    saved = EmailMessage()
    saved["From"], saved["Date"] = "trc@example.org", "Mon, 16 Nov 2026 10:12:00 -0800"
    body = MAIL_2026 if kind == "plain" else MAIL_2026.replace("\n", "<br>\n")
    saved.set_content(body, subtype=kind, cte=encoding)
    mail = read_trc_mail(saved.as_string())
    assert (len(mail.rows), mail.days, mail.sent_on, mail.problems) == (6, 90, "2026-11-16", ())


@pytest.mark.parametrize(
    ("head", "day"),
    [
        ("> Date: Mon, 16 Nov 2026 10:12:00 +0000", "2026-11-16"),
        ("---------- Forwarded message ---------\nDate: Mon, Nov 16, 2026 at 10:12 AM\n", "2026-11-16"),
        ("Sent: Monday, November 16, 2026 10:12 AM", "2026-11-16"),
        (
            "MIME-Version: 1.0\nDate: Tue, 24 Nov 2026 08:00:00 +0000\n\nDate: Mon, 16 Nov 2026 10:12:00 +0000\n",
            "2026-11-16",
        ),
        ("Date: soon", None),
        ("Date: 99 Foo 99999", None),
        ("MIME-Version: 1.0\nDate: Mon, 16 Nov 2026 10:00:00 +9999999999999999\n", None),
        ("no date", None),
    ],
)
def test_the_day_of_a_forwarded_mail_is_read(head: str, day: str | None) -> None:
    assert read_trc_mail(f"{head}\n{LINE}").sent_on == day


def test_two_numbers_for_the_same_chips_are_a_problem() -> None:
    mail = read_trc_mail(f"{LINE}\n{LINE.replace('64', '32')}")
    assert mail.rows == (ROW,)
    assert "an earlier line grants 64 of the same chips" in mail.problems[0]


def test_of_a_generation_that_cannot_be_granted_it_says_so_and_does_not_advise_to_enter_it() -> None:
    mail = read_trc_mail("64 spot Cloud TPU v7x chips in zone us-central1-c")
    assert "Grants for 'v7x' are not supported (supported: v2, " in mail.problems[0]
    assert mail.problems[0].endswith("Leave this line out.")


def test_a_text_without_a_grant_says_what_one_looks_like() -> None:
    assert "32 on-demand Cloud TPU v4 chips in zone us-central2-b" in read_trc_mail("Dear researcher,").problems[0]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("This free 90-day trial", 90),
        ("a 30-day free trial", 30),
        ("quota free of\ncharge for 31 days:", 31),
        ("access to Cloud TPUs for 30 days, free of charge.", 30),
        ("for 60 days at no cost", 60),
        ("Your project now has access to Cloud TPUs for 30 days:", 30),
        ("You have been granted access for 30 days", 30),
        ("Your quota is valid for a period of thirty (30) days.", 30),
        ("access to the following Cloud TPUs for the next\n60 days", 60),
        ("You receive 90 days of access.", 90),
        ("within 30 days of this mail", None),
        ("Tell us within 30 days. We keep your answers for 90 days.", None),
        ("This free 0-day trial", None),
        ("This free 99999-day trial", None),
        ("no term at all", None),
    ],
)
def test_the_term_is_what_the_mail_states(text: str, days: int | None) -> None:
    mail = read_trc_mail(f"{LINE}\n{text}")
    assert (mail.days, mail.proposed_days) == (days, days or SHORTEST_TERM_DAYS)


def test_of_two_terms_none_is_taken() -> None:
    mail = read_trc_mail(f"{LINE}\nThis free 90-day trial.\nYour free 30-day trial.")
    assert mail.days is None
    assert "30, 90 days" in mail.problems[0]


PIECES = st.sampled_from(
    [*re.split(r"(\W)", MAIL_2026 + MAIL_2021), "<b>", "</td>", "&nbsp;", "=\n", "\ud800", "\u202e"]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=200).map("".join)))
def test_no_text_is_too_wild(text: str) -> None:
    mail = read_trc_mail(text)
    assert all(row_from_json(each.to_json()) == each for each in mail.rows)
    assert all(len(problem) < 400 for problem in mail.problems)
    assert mail.rows or mail.problems


@pytest.mark.parametrize(
    "piece", ["<", "<td", "64 ", "free ", "access for ", "&#", "64 spot ", " " * 7, "> ", "\u200b", "\ufdfa"]
)
def test_a_text_of_a_million_repetitions_ends(piece: str) -> None:
    problems = read_trc_mail(piece * 1_000_000).problems
    assert "Only the first" in problems[0]


ZONES = st.sampled_from(["us-central1-a", "us-central2-b", "europe-west4-b", "us-east1-d"])


@given(st.integers(1, 100_000), st.sampled_from(generations()), st.booleans(), ZONES, st.sampled_from(["", "> ", "* "]))
def test_each_row_that_is_written_is_read(chips: int, generation: str, spot: bool, zone: str, mark: str) -> None:
    line = f"{mark}{chips} {'spot' if spot else 'on-demand'} Cloud TPU {generation} chips in zone {zone}"
    assert read_trc_mail(line).rows == (row(chips, generation, spot, zone),)
