"""Replace all texts in an exchange that are private or differ each time, each by the same placeholder everywhere.

The first project becomes ``<project-1>`` everywhere, the second ``<project-2>``, and so on. Credentials, project
numbers, email addresses, IP addresses, SSH keys, host keys, values of metadata, error ids, operation names, page
tokens, ids and times are replaced in the same way. Node ids, labels, descriptions, zones and networks are kept: check
them before you share a recording. This module is independent of HTTP.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from jupyter_tpu.emulator.recording.wildcards import KINDS

_PROJECT = r"((?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[a-z](?:[a-z0-9-]*[a-z0-9])?)"
_LEARNED: Mapping[str, tuple[re.Pattern[str], ...]] = {
    "project-number": (
        re.compile(r"\bprojects?[/:=]([0-9]+)\b"),
        re.compile(r"\b([0-9]{6,})-compute@developer\.gserviceaccount\.com"),
        re.compile(r"\bservice-([0-9]{6,})@"),
        re.compile(r"\bproject ([0-9]{6,})\b"),
    ),
    "project": (
        re.compile(rf"\bprojects/{_PROJECT}(?![\w-])"),
        re.compile(rf"\bproject[:=]{_PROJECT}(?![\w-])"),
        re.compile(rf"\bproject '{_PROJECT}'"),
        re.compile(r"@([a-z][a-z0-9-]*[a-z0-9])\.iam\.gserviceaccount\.com"),
    ),
}
"""Patterns that find a project or its number. Each found text is then replaced wherever it occurs as a word."""

_FOUND: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("secret", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)),
    ("secret", re.compile(r"\bya29\.[\w.-]+")),
    ("secret", re.compile(r"\bAIza[\w-]{30,}")),
    ("secret", re.compile(r"\bGOCSPX-[\w-]+")),
    ("secret", re.compile(r"\beyJ[\w-]{10,}\.[\w-]+\.[\w-]*")),
    ("secret", re.compile(r"\b(?:ghp|gho|ghs|hf|glpat|xox[abp]|sk)[_-][\w-]{16,}")),
    ("secret", re.compile(r"(?i:(?<=\bbearer ))[^\s\"'<]+")),
    ("key", re.compile(r"\bAAAA[A-Za-z0-9+/]{16,}={0,3}")),
    ("email", re.compile(r"(?!<)[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("eid", re.compile(r"(?<=EID: )0x[0-9a-f]{15,16}")),
    ("operation", re.compile(KINDS["operation"])),
    ("time", re.compile(KINDS["time"])),
)
"""Patterns of texts that are recognised by their format, in the order of replacement."""

_ADDRESSES = (
    re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.])"),
    re.compile(r"(?<![\w.:])[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f.:]*(?![\w])"),
)
_SECRET_NAME = re.compile(
    r"(?i)(.*(password|passwd|secret|credential|private_?key|api_?key|access_?token|id_?token|refresh_?token).*"
    r"|authorization|oauth_token|token|key)"
)
_PLAIN_METADATA = re.compile(r"(?i)true|false|[0-9]{0,4}")
_UID = re.compile(r"[0-9]{6,}")
# error IDs are never referenced, so they need no numbers
_UNNUMBERED = frozenset(["eid"])


class Scrubber:
    """A replacer of private texts in one recording. The same text always gets the same replacement."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._words: dict[str, str] = {}

    def hide(self, secret: str) -> None:
        """Replace `secret` in every text that is scrubbed from now on."""
        if secret:
            self._words[secret] = self._name("secret", secret)

    def learn(self, text: str) -> None:
        """Find the projects and project numbers in a text and replace them from now on."""
        for kind, patterns in _LEARNED.items():
            for pattern in patterns:
                for word in pattern.findall(text):
                    self._words.setdefault(word, self._name(kind, word))

    def scrubbed(self, value: Any, name: str = "") -> Any:
        """Return a copy of a JSON value without private data; `name` is the name of its field."""
        if isinstance(value, dict):
            return self._object(value, name)
        if isinstance(value, list):
            return [self.scrubbed(each, name) for each in value]
        return self._text(value, name) if isinstance(value, str) else value

    def _object(self, value: dict[str, Any], name: str) -> dict[str, Any]:
        if name == "metadata" and "@type" not in value:
            return {self.text(key): self._metadata(each) for key, each in value.items()}
        if value.keys() >= {"key", "value"}:  # an item of Compute Engine's metadata, or a guest attribute
            key = str(value["key"])
            shown = self._metadata(value["value"]) if "namespace" not in value else self.scrubbed(value["value"], "")
            return {**{each: self.scrubbed(value[each], each) for each in value}, "key": key, "value": shown}
        return {self.text(key): self.scrubbed(each, key) for key, each in value.items()}

    def _metadata(self, value: Any) -> Any:
        """Replace a metadata value unless it is true or false, because startup scripts may contain credentials."""
        if not isinstance(value, str) or _PLAIN_METADATA.fullmatch(value):
            return self.scrubbed(value)
        return self._name("metadata", value)

    def _text(self, value: str, name: str) -> str:
        if name in ("pageToken", "nextPageToken", "page_token"):
            return self._name("token", value) if value else value
        # match the field's name, because a password has no recognizable format
        if _SECRET_NAME.fullmatch(name) and value:
            return self._name("secret", value)
        if name in ("id", "uid", "uniqueId") and _UID.fullmatch(value):
            return self._words.get(value) or self._name("uid", value)
        return self.text(value)

    def text(self, value: str) -> str:
        """Return a text without private data."""
        # replace secrets first, because their text may contain something that other patterns match
        for secret in [word for word in self._words if self._words[word].startswith("<secret")]:
            value = value.replace(secret, self._words[secret])
        for kind, pattern in _FOUND:
            value = pattern.sub(self._naming(kind), value)
        for pattern in _ADDRESSES:
            value = pattern.sub(self._address, value)
        return self._words_replaced(value)

    def _words_replaced(self, value: str) -> str:
        # replace the longest word first, because a project ID may contain another project ID
        for word in sorted(self._words, key=len, reverse=True):
            if word in value:
                pattern = rf"(?<![\w<]){re.escape(word)}(?![\w>])(?!-[a-z0-9]+>)"
                value = re.sub(pattern, self._words[word], value)
        return value

    def _naming(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._name(kind, match[0])

    def _address(self, match: re.Match[str]) -> str:
        try:
            ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        return self._name("ip", match[0])

    def _name(self, kind: str, raw: str) -> str:
        if kind in _UNNUMBERED:
            return f"<{kind}>"
        if (kind, raw) not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[kind, raw] = f"<{kind}-{self._counts[kind]}>"
        return self._names[kind, raw]
