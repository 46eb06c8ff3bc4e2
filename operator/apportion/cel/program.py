"""A compiled selector. In: its text. Out: a Program that says of a device: match, no match, or an error."""

from collections.abc import Iterable
from typing import Final

from apportion.cel.check import check
from apportion.cel.constants import fold
from apportion.cel.facts import facts
from apportion.cel.fast import Fast, fast
from apportion.cel.parse import parse
from apportion.cel.precise import Precise, precise
from apportion.cel.reads import Reads, reads
from apportion.cel.values import CelFailure, CostExceeded, Value, name_of
from apportion.dra.device import Device
from apportion.errors import SelectorError

_LONGEST_MESSAGE: Final = 200


class Program:
    """A selector that compiled. Immutable, safe to share."""

    __slots__ = ("_fast", "_precise", "reads", "source")

    def __init__(self, source: str, quick: Fast | None, exact: Precise, read: Reads) -> None:
        self.source = source
        """The selector's text."""
        self.reads = read
        """What it can read: ("attribute" | "capacity" | "field", full name) pairs; None when it may read everything."""
        self._fast = quick
        self._precise = exact

    @property
    def is_fast(self) -> bool:
        """Whether the selector has a fast form; without one every device costs microseconds."""
        return self._fast is not None

    def match(self, device: Device) -> bool:
        """Say whether the device matches; raises SelectorError, with a short message, when evaluation fails."""
        if self._fast is not None:
            try:
                return self._fast(device)
            except Exception:  # noqa: BLE001, S110 - whatever it was, the precise form knows what it means
                pass
        return self.match_precisely(device)

    def match_precisely(self, device: Device) -> bool:
        """Say the same without the fast form."""
        try:
            found = self._precise(facts(device).value)
        except CelFailure as failure:
            raise SelectorError(f"CEL runtime error: {str(failure)[:_LONGEST_MESSAGE]}") from None
        except CostExceeded:
            raise SelectorError(
                "CEL runtime error: operation cancelled: actual cost limit exceeded"
            ) from None
        except RecursionError:
            raise SelectorError("CEL runtime error: nested too deeply") from None
        return _boolean(found)

    def matches(self, devices: Iterable[Device]) -> list[bool | SelectorError]:
        """Say it for many devices; a failure is returned in the device's place instead of raised."""
        out: list[bool | SelectorError] = []
        quick = self._fast
        for device in devices:
            if quick is not None:
                try:
                    out.append(quick(device))
                except Exception:  # noqa: BLE001, S110 - as in `match`
                    pass
                else:
                    continue
            try:
                out.append(self.match_precisely(device))
            except SelectorError as error:
                out.append(error)
        return out


def compile_selector(text: str) -> Program:
    """Compile a selector; raises SelectorError with line and column when it cannot be one."""
    root = parse(text)
    checked = check(text, root)
    fold(checked)
    try:
        exact = precise(checked)
    except RecursionError:
        raise SelectorError("compilation failed: the expression is nested too deeply") from None
    return Program(text, fast(checked), exact, reads(checked))


def _boolean(found: Value) -> bool:
    if type(found) is bool:
        return found
    name = name_of(found)
    raise SelectorError(
        f"CEL result of type {name} could not be converted to bool: type conversion error from {name} to 'bool'"
    )
