"""Parse a pasted email in which the TPU Research Cloud grants chips.

Two line formats are known. Since 2026: ``32 on-demand Cloud TPU v4 chips in zone us-central2-b``. From 2021 to 2024:
``5 on-demand Cloud TPU v2-8 device(s) in zone us-central1-f``. Quoting, bullets, line wraps, surrounding HTML and the
order of a table's columns are ignored. The parser never guesses: a line that looks like a grant but cannot be read is
reported as a problem with its text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email import message_from_string, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

from jupyter_tpu.accelerators import Accelerator, find_accelerator, generations
from jupyter_tpu.errors import BadInput, Text
from jupyter_tpu.money.grants import MOST_DAYS, MOST_ROWS, GrantRow, row_from_json

SHORTEST_TERM_DAYS = 30
"""The shortest term that TRC has granted, in days; proposed if an email contains none.

Known terms, 2021 to 2026: 30, 31, 60, 90 and 180 days. If the proposed term is too short, free nodes count as billed.
The reverse can't happen.
"""

# Limits for pasted text: characters to read, characters of a line to show, problems to list.
_LONGEST_TEXT = 100_000
_LONGEST_SHOWN = 160
_MOST_PROBLEMS = 50

# All repetitions below are bounded, so that no text can make matching slow.
_BLOCK_TAG = re.compile(r"</?(?:br|p|div|li|ul|ol|tr|table|h[1-6])\b[^<>]{0,2000}>", re.IGNORECASE)
_ROW_BEGIN = re.compile(r"<tr\b", re.IGNORECASE)
_ROW_END = re.compile(r"</tr\b", re.IGNORECASE)
_CELL_TAG = re.compile(r"</?t[dh]\b[^<>]{0,2000}>", re.IGNORECASE)
_TAG = re.compile(r"<[a-zA-Z/!][^<>]{0,2000}>")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_WRAPPING = str.maketrans(dict.fromkeys("*_`|\"'“”„‘’«»()[]{}", " "))
_BULLET = re.compile(r"\A(?:[>•·▪◦‣#]+ ?|[-+] )+")
_ESCAPED = re.compile(r"(?:=[0-9A-F]{2}){1,100}")
# Maximum length of a table row. A longer row belongs to the layout of the whole email.
_LONGEST_ROW = 300

# The separator between two words: one space or line end, because `_cleaned` leaves no others.
_S = r"[ \n]"
_ZONE = r"[a-z]{2,20}-\n?[a-z]{2,20}[0-9]{1,3}-\n?[a-z0-9]{1,8}"
_GRANT = re.compile(
    rf"""(?<!\S)(?P<count>[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,2}}|[0-9]{{1,9}}){_S}
    (?P<model>on[- ]\n?demand|spot|pre-?emptible){_S}
    (?:cloud{_S})?(?:tpus?{_S})?
    (?P<what>v[0-9][a-z0-9]{{0,12}}(?:-[0-9]{{1,6}})?){_S}
    (?:(?P<unit>chip|device)s?{_S})?
    (?:in{_S})?(?:(?:each{_S}of{_S})?(?:the{_S})?zones?:?{_S})?
    (?P<zones>{_ZONE}(?:
        (?:{_S}?[,;/]{_S}?(?:(?:and|or|&){_S})?|{_S}(?:and|or|&){_S})(?:in{_S})?(?:zones?{_S})?
        {_ZONE})*)(?![\w-])""",
    re.IGNORECASE | re.VERBOSE,
)
# The parts of a line in any order, as in a table; every word of such a line is a part or a filler.
_PARTS = {
    "count": re.compile(r"[0-9]{1,9}"),
    "model": re.compile(r"on-demand|spot|pre-?emptible"),
    "what": re.compile(r"v[0-9][a-z0-9]{0,12}(?:-[0-9]{1,6})?"),
    "zone": re.compile(_ZONE),
}
_FILLERS = frozenset(
    "and or & x × - in of the cloud tpu tpus zone zones chip chips device devices".split()  # noqa: SIM905 - shorter
)
# A line with three of these signs (number, model, TPU, zone) is probably a grant in an unknown format.
_SIGNS = (
    re.compile(r"(?<!\S)[0-9][0-9.,]*(?!\S)"),
    re.compile(r"\b(?:on[- ]?demand|spot|pre-?emptible|reserved)\b", re.IGNORECASE),
    re.compile(r"\bTPUs?\b|\bv[0-9][a-z0-9]*\b", re.IGNORECASE),
    re.compile(r"\bzones?\b|\b[a-z]+-[a-z]+[0-9]-[a-z]\b", re.IGNORECASE),
)
# a number of days, which in the right context is the term of a grant
_DAYS = r"(?<![\w.,-])([0-9]{1,4})[-\ \n]days?\b"
_TERM = re.compile(
    rf"""\bfree\b[^.]{{0,60}}?{_DAYS}
    |\b(?:access|grant(?:s|ed)?|quota|tpus?|valid|available)\b[^.]{{0,80}}?\bfor{_S}
        (?:a{_S}(?:period|term|total){_S}of{_S}|(?:up{_S}to|the{_S}next){_S})?(?:[a-z-]{{3,20}}{_S})?{_DAYS}
    |{_DAYS},?{_S}(?:free\b|trial\b|term\b|grant\b|of{_S}(?:access|quota|use)\b|at{_S}no{_S}(?:cost|charge)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_GENERATION = re.compile(r"\bv[0-9]", re.IGNORECASE)
_DATE = re.compile(r"^[>* ]*(?:Date|Sent|Datum):[ \t]*(.{6,60})$", re.IGNORECASE | re.MULTILINE)
_OTHER_NAMES = {"v5litepod": "v5e", "v5lite": "v5e"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrcMail:
    """The contents of an email.

    Attributes:
        days: the term stated in the email; None if the email states no term or several terms.
        sent_on: the email's date as ``YYYY-MM-DD``; None if it has no date.
        problems: lines that look like a grant but cannot be read, with their text.
        notes: how ambiguous lines were interpreted.
    """

    rows: tuple[GrantRow, ...] = ()
    days: int | None = None
    sent_on: str | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def proposed_days(self) -> int:
        """The term in days to propose to the user: the term in the email, or else the shortest term that TRC grants."""
        return self.days or SHORTEST_TERM_DAYS

    def to_json(self) -> dict[str, Any]:
        """Return the body of ``POST grants/parse``."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "days": self.days,
            "proposed_days": self.proposed_days,
            "sent_on": self.sent_on,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


def read_trc_mail(text: str) -> TrcMail:
    """Parse an email; never raises."""
    reading = _Reading()
    if len(text) > _LONGEST_TEXT:
        reading.problems.append(Text("Only the first {count} characters of the text were read.", count=_LONGEST_TEXT))
    body, sent_on = _opened(text[:_LONGEST_TEXT])
    cleaned = _cleaned(body)
    lines = list(_with_rows_joined(cleaned.split("\n")))
    ordered = [_in_order(line) for line in lines]
    changed = ((line, read) for line, read in zip(lines, ordered, strict=True) if read != line)
    reading.notes += [Text("“{line}” was read as {read}.", line=line, read=read) for line, read in changed]
    rows = "\n".join(ordered)
    for match in _GRANT.finditer(rows):
        reading.add_line(match)
    # in the remaining text, report lines that look like grants, but not the sentence with the term
    for line in _GRANT.sub("\n", rows).split("\n"):
        is_the_term = _TERM.search(line) and not _GENERATION.search(line)
        if not is_the_term and sum(bool(sign.search(line)) for sign in _SIGNS) >= 3:
            reading.add_problem(line, Text("looks like a grant but cannot be read"))
    days = reading.term(cleaned)
    if not reading.rows and not reading.problems:
        reading.problems.append(Text("No line looks like “32 on-demand Cloud TPU v4 chips in zone us-central2-b”."))
    return TrcMail(
        rows=tuple(reading.rows.values()),
        days=days,
        sent_on=sent_on,
        problems=tuple(reading.problems[:_MOST_PROBLEMS]),
        notes=tuple(dict.fromkeys(reading.notes)),
    )


def _opened(text: str) -> tuple[str, str | None]:
    """Return the text and the date of an email that was saved as a file (``.eml``) or pasted as plain text."""
    try:
        saved = list(_bodies(message_from_string(text.lstrip(), policy=policy.default)))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        # `email` raises any of these for broken emails and for text that only resembles an email
        saved = []
    with_grants = (each for each in saved if _GRANT.search(_cleaned(each[0])))
    body, header = next(with_grants, saved[0] if saved else (text, ""))
    # the body has the original date of a forwarded email; the header has the date of forwarding
    found = _DATE.search(body)
    return body, (_day(found[1]) if found else None) or _day(header)


def _bodies(mail: EmailMessage) -> Iterator[tuple[str, str]]:
    """Yield the texts and dates of an email and its attached emails; yield nothing if `text` is not an email."""
    if not (mail["MIME-Version"] or mail["Content-Type"]):
        return
    attached = [part.get_content() for part in mail.walk() if part.get_content_type() == "message/rfc822"]
    for each in (mail, *attached):
        for kind in ("plain", "html"):
            part = each.get_body((kind,))
            body = part.get_content() if part is not None else None
            if isinstance(body, str):
                yield body, str(each["Date"] or mail["Date"] or "")


def _day(stated: str) -> str | None:
    # the second form is Gmail's format in forwarded emails: "Mon, Nov 16, 2026 at 10:12 AM"
    for text in (stated, f"{stated.partition(' at ')[0]} 00:00:00"):
        try:
            return parsedate_to_datetime(text).date().isoformat()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _cleaned(text: str) -> str:
    """Return the words of a text, separated by single spaces or line breaks."""
    # this decodes quoted-printable text
    text = _ESCAPED.sub(_unescaped, text.replace("=\r\n", "").replace("=\n", ""))
    text = _TAG.sub("", _CELL_TAG.sub(" ", _BLOCK_TAG.sub("\n", _with_rows_on_lines(text))))
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(_DASHES)
    text = "".join(
        char for char in text if unicodedata.category(char) != "Cf"
    )  # removes zero-width characters of email clients
    text = re.sub(r"\b(chip|device|zone)\(s\)", r"\1s", text, flags=re.IGNORECASE).translate(_WRAPPING)
    lines = (" ".join(line.split()) for line in text.splitlines())
    stripped = (_BULLET.sub("", line) for line in lines)
    return "\n".join(line for line in stripped if line)


def _unescaped(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("=", "")).decode(errors="replace")


def _with_rows_on_lines(text: str) -> str:
    """Put each row of an HTML table on a separate line, even if its cells contain several lines."""
    head, *rows = _ROW_BEGIN.split(text)
    return head + "".join(map(_row_line, rows))


def _row_line(row: str) -> str:
    cells, *rest = _ROW_END.split(row, maxsplit=1)
    plain = " ".join(_BLOCK_TAG.sub(" ", cells).split())
    is_short = len(_TAG.sub("", plain)) <= _LONGEST_ROW and len(_CELL_TAG.findall(plain)) > 2
    return f"\n<tr{plain if is_short else cells}\n{'</tr' if rest else ''}{''.join(rest)}"


def _with_rows_joined(lines: Iterable[str]) -> Iterator[str]:
    """Join lines that contain only parts of a grant, such as cells of a table that was copied as text."""
    row, named = "", set[str]()
    for line in lines:
        parts = _parts(line)
        # a repeated part starts the next row; only zones may be a list
        is_list = row.endswith((",", "&", " and", " or"))
        if parts is None or parts.keys() & (named - {"zone"} if is_list else named):
            if row:
                yield row
            row, named = "", set()
        if parts is None:
            yield line
        else:
            row = f"{row} {line}".lstrip()
            named |= parts.keys()
    if row:
        yield row


def _parts(line: str) -> dict[str, list[str]] | None:
    """Return the parts of a grant that a line contains, or None if the line contains other words."""
    if len(line) > _LONGEST_ROW:
        return None
    found: dict[str, list[str]] = {}
    for word in re.sub(r"\bon demand\b", "on-demand", line.lower().replace(",", " ")).split():
        bare = word.rstrip(".:;")
        name = next((name for name, form in _PARTS.items() if form.fullmatch(bare)), None)
        if name:
            found.setdefault(name, []).append(bare)
        elif bare and bare not in _FILLERS:
            return None
    return found


def _in_order(line: str) -> str:
    """Return a grant line with each part once and in the usual order; return any other line unchanged."""
    parts = None if _GRANT.match(line) else _parts(line)
    has_each_once = parts and all(len(parts.get(name, ())) == 1 for name in ("count", "model", "what"))
    if not parts or not has_each_once or "zone" not in parts:
        return line
    unit = "devices" if "device" in line.lower() else "chips"
    return " ".join([*parts["count"], *parts["model"], *parts["what"], unit, "in", ", ".join(parts["zone"])])


class _Reading:
    """The data that has been read from an email so far."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, bool, str, str], GrantRow] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def add_problem(self, line: str, why: str) -> None:
        """Record that a line cannot be read, with the reason."""
        shown = " ".join(line.split())
        cut = shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "…"
        if why.endswith("."):
            self.problems.append(Text("“{line}”: {why}", line=cut, why=why))
        else:
            self.problems.append(Text("“{line}”: {why}.", line=cut, why=why))

    def add_line(self, match: re.Match[str]) -> None:
        """Add a row for each zone in a line that matches the format of a grant."""
        zones = [zone.replace("\n", "").lower() for zone in re.findall(_ZONE, match["zones"], re.IGNORECASE)]
        if len(zones) > 1:
            template = Text("{count} chips were read for each of {zones}.")
            if int(match["count"]) == 1:
                template = Text("1 chip was read for each of {zones}.")
            self.notes.append(template.with_arguments(count=match["count"], zones=", ".join(zones)))
        for zone in zones:
            self._add_row(match, zone)

    def _add_row(self, match: re.Match[str], zone: str) -> None:
        try:
            row, note = _row(match, zone)
        except BadInput as problem:
            template = problem.message
            self.add_problem(match[0], template if isinstance(template, Text) else Text(template))
            return
        known = self.rows.get(row.what)
        if known is not None and known != row:
            self.add_problem(
                match[0],
                Text("an earlier line grants {count} of the same chips; that number was used", count=known.chips),
            )
        elif known is None and len(self.rows) >= MOST_ROWS:
            self.add_problem(match[0], Text("only the first {count} rows are read", count=MOST_ROWS))
        elif known is None:
            self.rows[row.what] = row
            self.notes += [note] if note else []

    def term(self, cleaned: str) -> int | None:
        """Return the term in days; if the email states several, add a problem and return None."""
        stated = {int(match[match.lastindex or 1]) for match in _TERM.finditer(cleaned)}
        found = {days for days in stated if 1 <= days <= MOST_DAYS}
        if len(found) > 1:
            terms = ", ".join(str(days) for days in sorted(found)[:5])
            self.problems.append(
                Text("The email states several terms ({terms} days): enter the correct one.", terms=terms)
            )
        return found.pop() if len(found) == 1 else None


def _row(match: re.Match[str], zone: str) -> tuple[GrantRow, str]:
    """Return the grant row for a line of the email, and how its number was interpreted (empty if unambiguous).

    Raises:
        BadInput: the line contradicts itself or contains an unknown value.
    """
    count = int(match["count"].replace(",", ""))
    name, dash, size = match["what"].lower().partition("-")
    generation = _OTHER_NAMES.get(name, name)
    if generation not in generations():  # no row can be entered for this generation, so advise against it
        raise BadInput(
            Text(
                "Grants for {generation} are not supported (supported: {generations}). Leave this line out.",
                generation=repr(generation),
                generations=", ".join(generations()),
            )
        )
    unit = (match["unit"] or "").lower()
    # "5 v2-8 devices" counts nodes of that type, "32 v4 chips" counts chips; other combinations are ambiguous
    device = _device(generation, size, unit) if dash else None
    if unit == "device" and device is None:
        raise BadInput("the size of the devices is missing")
    row = row_from_json(
        {
            "chips": count * (device.chips if device else 1),
            "generation": generation,
            "spot": not match["model"].lower().startswith("on"),
            "zone": zone,
            "device": device.type if device else None,
        }
    )
    if device is None:
        return row, ""
    template = Text("{count} × {type} was read as {chips} chips of {generation}.")
    if row.chips == 1:
        template = Text("{count} × {type} was read as 1 chip of {generation}.")
    return row, template.with_arguments(count=count, type=device.type, chips=row.chips, generation=generation)


def _device(generation: str, size: str, unit: str) -> Accelerator:
    found = find_accelerator(f"{'v5litepod' if generation == 'v5e' else generation}-{size}")
    if found is None:
        raise BadInput("there is no such accelerator type")
    if unit == "chip":
        raise BadInput("it mixes the two forms: a number of chips, and a device such as v4-32")
    return found
