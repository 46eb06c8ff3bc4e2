"""The configuration of generic devices: one file of the administrator, for all nodes.

In: a YAML file. Out: the kinds of devices that can be taken, and why others cannot: each reason names file, field and what is
wrong. A kind that is broken costs nobody the others.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from apportion.agent.devices.generic.fields import CardType
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.api.model import DriverName, Model
from apportion.errors import BrokenInput

_LIST = "devices"


class _Named(Model):
    """What is known of a broken kind all the same."""

    type: CardType
    driver: DriverName


@dataclass(frozen=True, slots=True)
class GenericDevices:
    """What a configuration says."""

    kinds: tuple[DeviceKind, ...] = ()
    drivers: Mapping[str, str] = field(default_factory=dict)
    """Driver by type, also of broken kinds as far as both are known."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Why a kind cannot be taken, by its type, or by its place in the file where its type is not known."""
    content: bytes = b""
    """Of the file, by which a change is noticed."""

    @property
    def types(self) -> frozenset[str]:
        """The types of all cards and parts that it may describe."""
        return frozenset({*self.drivers, *(part.type for kind in self.kinds for part in kind.parts)})


def content(file: Path | None) -> bytes:
    """Return what stands in the file now, nothing when it cannot be read."""
    try:
        return file.read_bytes() if file is not None else b""
    except OSError:
        return b""


def read(file: Path | None, taken: Collection[str] = ()) -> GenericDevices:
    """Read a configuration; None: there is none. `taken` are drivers that the agent serves without it."""
    if file is None:
        return GenericDevices()
    text = content(file)
    try:
        entries = _entries(file)
    except BrokenInput as error:
        return GenericDevices(broken={_LIST: f"{file}: {error}"}, content=text)
    kinds: list[DeviceKind] = []
    drivers: dict[str, str] = {}
    broken: dict[str, str] = {}
    for index, raw in enumerate(entries):
        at = f"{_LIST}[{index}]"
        named = _named(raw)
        try:
            if not isinstance(raw, dict):
                raise BrokenInput("is no object")  # noqa: TRY301 - as what else is wrong with a kind
            _check_free(named, drivers, taken)
            kinds.append(DeviceKind.from_json(raw))
        except BrokenInput as error:
            key = named.type if named is not None and named.type not in drivers else at
            # pydantic marks errors about the key of a mapping.
            place = f"{at}.{error.field.removesuffix('.[key]')}" if error.field else at
            broken[key] = f"{file}: {place}: {error.reason}"
            if error.field in ("type", "driver"):
                continue
        if named is not None:
            drivers[named.type] = named.driver
    return GenericDevices(tuple(kinds), drivers, broken, text)


def _entries(file: Path) -> list[Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BrokenInput(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BrokenInput("is no UTF-8") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that there is not
        raise BrokenInput(f"is no YAML: {' '.join(str(error).split())}") from None
    if found is None:
        return []
    if not isinstance(found, dict):
        raise BrokenInput(f"is no object with a list {_LIST}")
    unknown = sorted(str(name) for name in found if name != _LIST)
    if unknown:
        raise BrokenInput("is not known", field=unknown[0])
    entries = found.get(_LIST)
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise BrokenInput("is no list", field=_LIST)
    return entries


def _named(raw: object) -> _Named | None:
    try:
        return _Named.from_json(raw) if isinstance(raw, dict) else None
    except BrokenInput:
        return None


def _check_free(named: _Named | None, drivers: Mapping[str, str], taken: Collection[str]) -> None:
    if named is None:
        return
    if named.type in drivers:
        raise BrokenInput(f"{named.type} is the type of another kind of this file", field="type")
    if named.driver in taken or named.driver in drivers.values():
        raise BrokenInput(f"{named.driver} is the driver of another kind of device", field="driver")
