"""Named formats (apiserver `library/format.go`), each of which lists the errors of a string."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Final

from apportion.cel.library.functions import declare, own_type, tenth
from apportion.cel.library.urls import parse_url
from apportion.cel.values import NONE, CelFailure, Optional, Value

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OLD_LABEL: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = rf"({_QUALIFIED})?"
_UUID: Final = r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}"
_BASE64: Final = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_CLOCK: Final = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?(z|[+-]\d\d:\d\d)"
_DATE: Final = r"\d{4}-\d\d-\d\d"


@dataclass(frozen=True, slots=True)
class Format:
    """A named format."""

    name: str
    faults: Callable[[str], tuple[str, ...]]
    """Return the errors of a string; empty when it has the format."""
    size: int
    """Characters of the pattern, from which the cost of a call is computed."""


own_type("kubernetes.NamedFormat", Format)


def _fits(pattern: str, text: str) -> bool:
    # These patterns are our own and cannot backtrack exponentially; users' patterns are run by RE2.
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _name(pattern: str, most: int, what: str, *, prefix: bool = False) -> Callable[[str], tuple[str, ...]]:
    """Return the errors of a name; a prefix may end in a dash, since characters follow it."""

    def faults(text: str) -> tuple[str, ...]:
        if prefix and len(text) > 1 and text.endswith("-"):
            text = f"{text[:-2]}a"
        found = [] if len(text) <= most else [f"must be no more than {most} characters"]
        if not _fits(pattern, text):
            found.append(f"{what} (regex used for validation is '{pattern}')")
        return tuple(found)

    return faults


def _pattern(pattern: str, fault: str) -> Callable[[str], tuple[str, ...]]:
    return lambda text: () if _fits(pattern, text) else (fault,)


_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character"
)
_OLD_LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character"
)
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)


def _qualified_name(text: str) -> tuple[str, ...]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ("a qualified name must consist of a name with an optional DNS subdomain prefix and '/'",)
    found: list[str] = []
    if slash:
        if not prefix:
            found.append("prefix part must be non-empty")
        else:
            found.extend(f"prefix part {fault}" for fault in _name(_SUBDOMAIN, 253, _SUBDOMAIN_RULE)(prefix))
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 characters")
    if not _fits(_QUALIFIED, name):
        found.append(f"{_QUALIFIED_RULE} (regex used for validation is '{_QUALIFIED}')")
    return tuple(found)


def _uri(text: str) -> tuple[str, ...]:
    try:
        parse_url(text)
    except CelFailure as failure:
        return (str(failure),)
    return ()


def _is_date(text: str) -> bool:
    try:
        return _fits(_DATE, text) and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _date(text: str) -> tuple[str, ...]:
    return () if _is_date(text) else ("invalid date",)


def _datetime(text: str) -> tuple[str, ...]:
    day, _, clock = text.lower().partition("t")
    return () if _is_date(day) and _fits(_CLOCK, clock) else ("invalid datetime",)


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _name(_LABEL, 63, _LABEL_RULE), 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _name(_SUBDOMAIN, 253, _SUBDOMAIN_RULE), 60),
    "dns1035Label": Format("DNS1035Label", _name(_OLD_LABEL, 63, _OLD_LABEL_RULE), 30),
    "qualifiedName": Format("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _name(_LABEL, 63, _LABEL_RULE, prefix=True), 30),
    "dns1123SubdomainPrefix": Format(
        "DNS1123SubdomainPrefix", _name(_SUBDOMAIN, 253, _SUBDOMAIN_RULE, prefix=True), 60
    ),
    "dns1035LabelPrefix": Format(
        "DNS1035LabelPrefix", _name(_OLD_LABEL, 63, _OLD_LABEL_RULE, prefix=True), 30
    ),
    "labelValue": Format("LabelValue", _name(_LABEL_VALUE, 63, _VALUE_RULE), 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _pattern(_UUID, "does not match the UUID format"), 70),
    "byte": Format("byte", _pattern(_BASE64, "invalid base64"), 84),
    "date": Format("date", _date, 72),
    "datetime": Format("datetime", _datetime, 72),
}


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _validate(form: Format, text: str) -> Optional:
    found = form.faults(text)
    return Optional(found) if found else NONE


def _searched(args: tuple[Value, ...], _: Value) -> int:
    form: Format = args[0]
    return tenth(1 + len(args[1])) * -(-form.size // 4)


OVERLOADS = (
    declare("format.named(string) -> optional(kubernetes.NamedFormat)", _named),
    declare("kubernetes.NamedFormat validate(string) -> optional(list(string))", _validate, _searched),
    *(
        declare(f"format.{name}() -> kubernetes.NamedFormat", lambda form=form: form)
        for name, form in FORMATS.items()
    ),
)
