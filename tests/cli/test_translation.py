"""A user of another language sees no English: a language of full-width letters shows what cannot be translated."""

from __future__ import annotations

import gettext
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from pseudo_language import english_lines, write_language
from tiers import mostly_nightly

from jupyter_tpu.cli import main
from jupyter_tpu.cli.arguments import COMMANDS
from jupyter_tpu.i18n import _

pytestmark = pytest.mark.timeout(600)

_NOT_ENGLISH = (
    r"\btpu-\S+",  # kernelspecs
    r"`[^`]*`",
    r"\bjupyter[ _]tpu(?: [a-z-]+)?\b|\bPython\b|\bjax\b|\btorch_\w+|\btf\b|\bTensorCores\b|\bCloud Quotas API\b",
    r"'[^']*'",  # what was typed
    r"\S*/\S*",  # paths, and names of resources
    r"\[[^]]*\]|\{[^}]*\}",  # how a command is used
    r"(?<!\w)--?[a-z][a-z-]*",
    r"\b[A-Z][A-Z_:|…]+\b",  # states of the API, placeholders of arguments, variables
    r"\b(?:my-node|other|found|waiting|nobody|nothing|first|trc|mars|demo-project)\b",
    r"\b[a-z]+-[a-z]+\d(?:-[a-z])?\b|\bv\d\S*|\b[0-9a-f]{16}\b",  # zones, types, ids
    r"\b(?:on-demand|spot)\b",
    r"\b(?:min|GiB)\b",
    r"(?<=ｗｏｒｋｅｒ 0 )\S+:",  # its hostname
)
"""What stays as it is in any language."""

_COMMANDS = """
create my-node --type v5litepod-8 --zone us-central1-a --yes
create my-node --type v5litepod-8 --zone us-central1-a --yes
create other --type nonsense
create --tpye v5litepod-8
list
list --zone mars
describe my-node
search found --types v5litepod-8,v6e-8 --zones us-west4-a --yes
queue add waiting --type v5litepod-16 --zone us-west4-a --yes
queue add waiting
queue
queue remove waiting --yes
kernels
kernels end nothing
env list my-node
env make my-node nothing
ps my-node
top my-node --once
autostop
autostop my-node --idle 1h --session 12h
autostop nobody
extend my-node 3h
extend my-node tomorrow
kernelspec
grant
grant add trc --row "32 spot v4 us-central2-b" --starts-on 2026-11-01 --days 30 --yes
grant add trc --row nonsense --yes
grant
cost
cost --by day
cost --by day --billed
budget
budget set first --usd 10 --per week
budget set first
budget
recover
recover my-node --on
quota
quota --zone us-central1-a
cleanup
setup --yes
doctor
stop my-node
stop my-node --yes
start my-node --yes
delete found --yes
delete nobody --yes
stop --all --yes
budget remove first
grant remove trc
keep my-node 1h
unknown-command
"""
"""Not among them: `audit` and the list of `search`, which show what the journal recorded, and `doctor NODE` and
`release`, which show what the node's agent found; both are in English.
"""
_FROM_THE_AGENT = r"\(it can stop or delete my-node even while your own machine is off\)"


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables that choose the made-up language."""
    return write_language(tmp_path_factory.mktemp("locale"))


def _english_lines(text: str) -> Iterator[str]:
    return english_lines(text, (_FROM_THE_AGENT, *_NOT_ENGLISH))


@pytest.mark.parametrize("command", mostly_nightly(["", *sorted(COMMANDS.keys() - {"emulator"})], count=8))
def test_help_is_translated(command: str, terminal: Any, language: dict[str, str]) -> None:
    done = terminal.tpu(*shlex.split(command), "--help", **language)
    # commands, options and their values
    names = r"^  [a-z-]+  |^  +(?:-\S+(?: [A-Z]\S*)?(?:, )?)+|\b(?:list|set|add|remove|confirm|end)\b|\b\d+h\|off"
    assert list(_english_lines(re.sub(names, " ", done.stdout, flags=re.MULTILINE))) == []


@pytest.mark.nightly  # fifty commands; their texts are marked like those of the help
def test_what_commands_print_is_translated(terminal: Any, language: dict[str, str]) -> None:
    english = []
    for line in _COMMANDS.strip().splitlines():
        done = terminal.tpu(*shlex.split(line), JUPYTER_TPU_EMULATOR=terminal.rest, **language)
        assert "Traceback" not in done.stderr, done.stderr
        english += [f"{line}: {each}" for each in _english_lines(done.stdout + done.stderr)]
    assert english == []


def test_json_stays_english(terminal: Any, language: dict[str, str]) -> None:
    error = terminal.tpu_json("describe", "nobody", LANGUAGE="zh_CN")["error"]
    assert error["message"] == "There is no node named nobody."


def test_a_terminal_without_the_characters_gets_escapes_and_no_traceback(terminal: Any) -> None:
    shown = terminal.tpu_in_fresh_python("--help", LANGUAGE="zh_CN", PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\\u" in shown.stdout


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"LANGUAGE": "zh_CN"}, "没有名为 nobody 的节点。"),
        ({"LANGUAGE": "", "LC_ALL": "zh_CN.UTF-8"}, "没有名为 nobody 的节点。"),
        ({"LANGUAGE": "", "LC_ALL": "", "LC_MESSAGES": "", "LANG": "zh_CN.UTF-8"}, "没有名为 nobody 的节点。"),
        ({"LANGUAGE": "en:zh_CN"}, "There is no node named nobody."),
        ({"LANGUAGE": "", "LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, "There is no node named nobody."),
        ({"LANGUAGE": "tlh"}, "There is no node named nobody."),
    ],
)
def test_the_environment_chooses_the_language(terminal: Any, variables: dict[str, str], says: str) -> None:
    assert says in terminal.tpu("describe", "nobody", **variables).stderr


def test_a_command_that_a_program_runs_leaves_the_programs_language(
    language: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in language.items():
        monkeypatch.setenv(name, value)
    before, domain = _("Nothing was done."), gettext.textdomain()
    for argv in (["version", "--json"], ["version"], ["no-such-command"]):
        main(argv)
    capsys.readouterr()
    assert list(_english_lines(before)) == []
    assert (_("Nothing was done."), gettext.textdomain()) == (before, domain)
