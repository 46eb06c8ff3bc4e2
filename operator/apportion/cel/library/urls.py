"""URLs (apiserver `library/urls.go`), parsed as Go's `net/url` parses the URI of a request."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

from apportion.cel.library.functions import declare, first, own_type, succeeds
from apportion.cel.values import CelFailure

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]*")
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PORT: Final = re.compile(r"(?::\d*)?", re.ASCII)
_VALID_PATH: Final = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*", re.ASCII)
_KEPT: Final = "/$&+,:;=@~"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts; `host` has the port."""

    scheme: str
    host: str
    path: str
    query: str
    rest: str
    """User and fragment, which equality compares too."""


own_type("kubernetes.URL", Url)


def parse_url(text: str) -> Url:
    """Read an absolute URL, or an absolute path; raises CelFailure."""
    _split(text, request=True)
    body, _, fragment = text.partition("#")
    scheme, user, host, path, query = _split(body, request=False)
    return Url(scheme, host, path, query, f"{user}#{fragment}")


def _refuse(reason: str) -> CelFailure:
    return CelFailure(f"URL parse error during conversion from string: {reason}")


def _split(text: str, *, request: bool) -> tuple[str, str, str, str, str]:
    if _CONTROL.search(text):
        raise _refuse("net/url: invalid control character in URL")
    if text == "" and request:
        raise _refuse("empty url")
    if text.startswith(":"):
        raise _refuse("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme, rest = (found[1].lower(), text[found.end() :]) if found else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return scheme, "", "", "", query  # opaque, such as "mailto:a@example.com"
        if request:
            raise _refuse("invalid URI for request")
    user = host = ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
        user, host = _authority(authority)
    if _BAD_ESCAPE.search(rest):
        raise _refuse("invalid URL escape")
    return scheme, user, host, rest, query


def _authority(authority: str) -> tuple[str, str]:
    user, at, host = authority.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        raise _refuse("net/url: invalid userinfo")
    if host.startswith("["):
        inside, bracket, port = host.rpartition("]")
        if not bracket or not inside:
            raise _refuse("missing ']' in host")
    else:
        # Everything from the last colon on is the port.
        name, colon, number = host.rpartition(":") if ":" in host else (host, "", "")
        port = colon + number
        if "%" in name and not re.fullmatch(r"(?:[^%]|%[89A-Fa-f][0-9A-Fa-f])*", name):
            raise _refuse("invalid URL escape in host")
    if not _PORT.fullmatch(port):
        raise _refuse("invalid port after host")
    if not _HOST.fullmatch(host):
        raise _refuse("invalid character in host name")
    return user, unquote(host)


def _port(url: Url) -> str:
    if url.host.endswith("]"):
        return ""
    _, colon, port = url.host.rpartition(":")
    return port if colon else ""


def _hostname(url: Url) -> str:
    host = url.host
    if host.startswith("[") and "]" in host:
        return host[1 : host.rindex("]")]
    name, colon, _ = host.rpartition(":")
    return name if colon else host


def _escaped_path(url: Url) -> str:
    if _VALID_PATH.fullmatch(url.path):
        return url.path
    return quote(unquote(url.path), safe=_KEPT)


def _query(url: Url) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for part in url.query.split("&"):
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        key, _, value = part.partition("=")
        name = unquote_plus(key)
        found[name] = (*found.get(name, ()), unquote_plus(value))
    return found


OVERLOADS = (
    declare("url(string) -> kubernetes.URL", parse_url, first),
    declare("isURL(string) -> bool", succeeds(parse_url)),
    declare("kubernetes.URL getScheme() -> string", lambda url: url.scheme),
    declare("kubernetes.URL getHost() -> string", lambda url: url.host),
    declare("kubernetes.URL getHostname() -> string", _hostname),
    declare("kubernetes.URL getPort() -> string", _port),
    declare("kubernetes.URL getEscapedPath() -> string", _escaped_path),
    declare("kubernetes.URL getQuery() -> map(string, list(string))", _query),
)
