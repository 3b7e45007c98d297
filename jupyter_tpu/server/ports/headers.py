"""What passes between a browser and a program on a node: which headers, cookies and query parameters.

Pure. Whatever gives access to this Jupyter server must not reach the program, and the program must not be able to set
cookies of this server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import unquote_plus, urlsplit

Headers = list[tuple[str, str]]

SANDBOX = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"
"""The content security policy of a page that the user doesn't trust.

The browser treats it as a page of an unknown origin: it can't use the user's rights on this server.
"""

_COOKIE_PREFIX = "jupyter-tpu-app-"
# RFC 9110, 7.6.1
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Referer may contain a token; the others are replaced.
_NOT_FOR_THE_PROGRAM = _HOP_BY_HOP | {
    "authorization",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "origin",
    "referer",
    "x-real-ip",
    "x-scheme",
    "x-xsrftoken",
    "x-csrftoken",
}
_NOT_FOR_THE_BROWSER = _HOP_BY_HOP | {"alt-svc", "clear-site-data", "service-worker-allowed", "set-cookie", "location"}
_PREFIX = re.compile(r"(.*?/nodes/[^/]+/[^/]+/ports/[0-9]+(?:/-/[^/]+)?)(/.*)", re.DOTALL)


def split_path(path: str) -> tuple[str, str]:
    """Split the path of a request into the path of the port on this server, and the program's own path.

    Raises:
        ValueError: the path is not that of a port.
    """
    if found := _PREFIX.fullmatch(path):
        return found[1], found[2]
    raise ValueError(path)


def cleaned_query(query: str) -> str:
    """Return a query without Jupyter's ``token``; everything else stays as it was sent."""
    return "&".join(part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != "token")


def request_headers(sent: Iterable[tuple[str, str]], port: int, prefix: str, *, is_upgrade: bool = False) -> Headers:
    """Return the headers for the program.

    Args:
        sent: the browser's headers.
        prefix: the path of the port on this server.
        is_upgrade: whether the request opens a WebSocket.
    """
    sent = list(sent)
    dropped = _NOT_FOR_THE_PROGRAM | _named_by_connection(sent)
    local = f"127.0.0.1:{port}"
    headers = [("Host", local)]
    for name, value in sent:
        lower = name.lower()
        if lower not in dropped and not lower.startswith("x-forwarded-"):
            headers.append((name, value))
        elif lower == "origin":  # the program compares it with Host
            headers.append(("Origin", f"http://{local}"))
    cookies = [_own_cookie(part) for name, value in sent if name.lower() == "cookie" for part in value.split(";")]
    if own := "; ".join(filter(None, cookies)):
        headers.append(("Cookie", own))
    headers.append(("X-Forwarded-Prefix", prefix))
    headers += [("Connection", "Upgrade"), ("Upgrade", "websocket")] if is_upgrade else [("Connection", "close")]
    return headers


def response_headers(sent: Iterable[tuple[str, str]], port: int, prefix: str, *, is_trusted: bool) -> Headers:
    """Return the headers for the browser.

    Args:
        sent: the program's headers.
        prefix: the path of the port on this server.
        is_trusted: whether the program's pages may use the user's rights on this server.
    """
    sent = list(sent)
    dropped = _NOT_FOR_THE_BROWSER | _named_by_connection(sent)
    if not is_trusted:
        dropped |= {"access-control-allow-origin", "access-control-allow-credentials", "referrer-policy"}
    headers = [(name, value) for name, value in sent if name.lower() not in dropped]
    for name, value in sent:
        if name.lower() == "location":
            headers.append((name, _location(value, port, prefix)))
        elif name.lower() == "set-cookie" and is_trusted:
            headers += [("Set-Cookie", cookie) for cookie in _confined_cookies(value, prefix)]
    if not is_trusted:
        headers += [
            ("Content-Security-Policy", SANDBOX),
            # A sandboxed page has the origin "null", and needs this even for its own modules and data.
            ("Access-Control-Allow-Origin", "null"),
            # The path contains the secret of the port.
            ("Referrer-Policy", "no-referrer"),
        ]
    return [*headers, ("X-Content-Type-Options", "nosniff")]


def _named_by_connection(headers: Headers) -> set[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    return {token.strip().lower() for value in values for token in value.split(",")}


def _own_cookie(part: str) -> str:
    """Return a cookie of the program as the program has named it; empty for any other cookie."""
    name, _, value = part.strip().partition("=")
    return f"{name.removeprefix(_COOKIE_PREFIX)}={value}" if name.startswith(_COOKIE_PREFIX) else ""


def _confined_cookies(value: str, prefix: str) -> list[str]:
    """Return a cookie under a name that no cookie of this server has, and only for the path of the port."""
    try:
        parsed = SimpleCookie(value)
    except CookieError:
        return []
    confined = []
    for name, morsel in parsed.items():
        cookie = SimpleCookie({_COOKIE_PREFIX + name: morsel.coded_value})
        kept = cookie[_COOKIE_PREFIX + name]
        kept.set(_COOKIE_PREFIX + name, morsel.value, morsel.coded_value)
        for attribute in ("expires", "max-age", "httponly"):
            kept[attribute] = morsel[attribute]
        kept["path"], kept["samesite"] = f"{prefix}/", "Strict"
        confined.append(kept.OutputString())
    return confined


def _location(value: str, port: int, prefix: str) -> str:
    """Return a redirection: inside the port for the program's own paths, unchanged for other sites.

    The browser follows it, never this server.
    """
    parts = urlsplit(value)
    is_own = parts.netloc in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}")
    if (parts.netloc and not is_own) or (parts.scheme and not is_own) or not parts.path.startswith("/"):
        return value
    return prefix + parts._replace(scheme="", netloc="").geturl()
