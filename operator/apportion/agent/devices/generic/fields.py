"""The texts and numbers of a configuration of generic devices, and what is wrong with them.

In: values as YAML has them. Out: the types of the configuration's fields, whose validators raise ValueError with the reason.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr

from apportion.agent.devices.values import CardKind
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput

LONGEST_TEXT = 64
"""Bytes of a string attribute (API `DeviceAttributeMaxValueLength`)."""
LONGEST_NUMBER = 2**63
"""The first number that an attribute of type int cannot have."""
_TAKEN = frozenset({*(str(kind) for kind in CardKind), "mig", "vnpu", "channel"})
PARTS = "parts"
"""Counter of a card with parts: how many of them nobody has. The card takes them all."""
_OWN = frozenset({"type", "uuid", "identifiedBy", "parentUUID"})
_PLACEHOLDERS = ("{name}", "{card}", "{pci}", "{uuid}")
_TYPES = {"string": str, "version": str, "int": int, "bool": bool}


def longhand(name: str) -> BeforeValidator:
    """Let text alone stand for an object that has it in this field."""
    return BeforeValidator(lambda value: {name: value} if isinstance(value, str) else value)


def check_fixed(value: object, kind: str | None) -> None:
    """Raise ValueError for a fixed value that an attribute of this type (None: any) cannot have."""
    if kind is not None and type(value) is not _TYPES[kind]:
        raise ValueError(f"{value!r} is no {kind}")
    if isinstance(value, str) and len(value.encode()) > LONGEST_TEXT:
        raise ValueError(f"{value[:20]!r}... is longer than {LONGEST_TEXT} bytes")
    if isinstance(value, int) and not -LONGEST_NUMBER <= value < LONGEST_NUMBER:
        raise ValueError(f"{value} does not fit into 64 bits")
    if kind == "version":
        _refused_as_value_error(Semver.parse, str(value))


def counter(capacity: str) -> str:
    """Return the counter of a capacity, a DNS label: `dma-bandwidth` of dmaBandwidth. Raises ValueError where none is left."""
    name = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", capacity).lower()).strip("-")
    if not name:
        raise ValueError(f"{capacity} is no name for a counter")
    return name


def _refused_as_value_error(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except BrokenInput as error:
        raise ValueError(error.reason) from None


def _card_type(text: str) -> str:
    if text in _TAKEN:
        raise ValueError(f"{text} is a kind that apportion has by itself")
    return text


def _fact_name(text: str) -> str:
    if text in _OWN:
        raise ValueError(f"{text} is an attribute that every device has by itself")
    return text


def _variable(text: str) -> str:
    if text.startswith("APPORTION_"):
        raise ValueError(f"{text} is a variable that apportion sets by itself")
    return text


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


def _path(text: str) -> str:
    if not text or ".." in text.split("/"):
        raise ValueError(f"{text!r} is no path, or leads upwards (..)")
    if "**" in text:
        raise ValueError(f"{text!r}: ** is not known, each folder has its own pattern")
    return text


def _file(text: str) -> str:
    if text.startswith("/") and not text.startswith(("/sys/", "/proc/")):
        raise ValueError(f"{text} is neither below the device's folder nor below /sys or /proc")
    return _path(text)


def _below(folder: str) -> AfterValidator:
    def check(text: str) -> str:
        if not text.startswith(folder) or text == folder:
            raise ValueError(f"{text!r} is not below {folder}")
        return _path(text)

    return AfterValidator(check)


def _template(text: str) -> str:
    unknown = [name for name in re.findall(r"\{.*?\}", text) if name not in _PLACEHOLDERS]
    if unknown:
        raise ValueError(f"{unknown[0]} is not known; known are {', '.join(_PLACEHOLDERS)}")
    return text


def _ids(value: object) -> tuple[str, ...]:
    # Numbers are refused: YAML reads 1234 as decimal, and somebody who writes it means a hexadecimal id.
    return tuple(
        _hex(each, "[0-9a-f]{4}", "id", "four") for each in (value if isinstance(value, list) else [value])
    )


def _pci_class(value: object) -> str:
    return _hex(value, "(?:[0-9a-f]{2}){1,3}", "class", "two, four or six")


def _hex(value: object, pattern: str, what: str, digits: str) -> str:
    found = re.fullmatch(f"(?:0x)?({pattern})", value.lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no {what}: {digits} hexadecimal digits, in quotes")
    return f"0x{found[1]}"


def _plain(value: object) -> object:
    if not isinstance(value, bool | int | str):
        # pydantic reports a ValueError only.
        raise ValueError(f"{value!r} is neither text, nor a whole number, nor true or false")  # noqa: TRY004
    return value


def _amount(value: object) -> int:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no amount, such as 4 or 16Gi")  # noqa: TRY004 - as above
    found: Quantity = _refused_as_value_error(Quantity.parse, str(value))
    if found.nano < 0 or Quantity.whole(found.value) != found:
        raise ValueError(f"{value!r} is no whole amount, such as 4 or 16Gi")
    return found.value


def _taken(value: object) -> int:
    found = _amount(value)
    if not found:
        raise ValueError(f"{value!r} is nothing")
    return found


def _inside(text: str) -> str:
    if text.startswith("/"):
        raise ValueError(f"{text} is not below the card's folder")
    return _path(text)


CardType = Annotated[StrictStr, Field(pattern=r"^[a-z][a-z0-9]{0,15}$"), AfterValidator(_card_type)]
"""Attribute `type`; without a dash, so that no card's name begins with another one's and a dash."""
Regex = Annotated[StrictStr, AfterValidator(_regex)]
"""A regular expression as Python has them."""
Template = Annotated[StrictStr, AfterValidator(_template)]
"""Text in which {name}, {pci} and {uuid} stand for the device's, and {card} for the name of its card."""
SourceFile = Annotated[StrictStr, AfterValidator(_file)]
"""A file below the device's folder in /sys, or an absolute one below /sys or /proc."""
SysPattern = Annotated[StrictStr, _below("/sys/")]
"""Folders in /sys; each part may have *, ? and [...]."""
DevPattern = Annotated[Template, _below("/dev/")]
"""Files in /dev; each part may have *, ? and [...]."""
HostPath = Annotated[Template, _below("/")]
"""An absolute path."""
FactName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$"), AfterValidator(_fact_name)]
"""A C identifier (API `QualifiedName` without a domain)."""
VariableName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_variable)]
"""An environment variable that is not one of apportion's own."""
Ids = Annotated[tuple[str, ...], BeforeValidator(_ids)]
"""One PCI id, or a list: `0x10ee`."""
PciClass = Annotated[str, BeforeValidator(_pci_class)]
"""The first bytes of a PCI class: `0x12`."""
Plain = Annotated[Any, AfterValidator(_plain)]
"""Text, a whole number, or true or false."""
Amount = Annotated[Any, AfterValidator(_amount)]
"""A whole quantity, as a number."""
TakenAmount = Annotated[Any, AfterValidator(_taken)]
"""A whole quantity that is more than nothing."""
PartPattern = Annotated[StrictStr, AfterValidator(_inside)]
"""Folders below a card's own in /sys; each part of the path may have *, ? and [...]."""
