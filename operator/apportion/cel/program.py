"""A compiled selector. In: its text. Out: a Program that says of a device: match, no match, or an error."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from apportion.cel.check import check
from apportion.cel.checked import Checked
from apportion.cel.constants import fold
from apportion.cel.facts import facts
from apportion.cel.fast import Quick, fast
from apportion.cel.parse import parse
from apportion.cel.precise import Precise, precise
from apportion.cel.reads import Reads, reads
from apportion.cel.values import CelFailure, CostExceeded, Value, name_of
from apportion.dra.device import Device
from apportion.errors import SelectorError

_LONGEST_MESSAGE: Final = 200


class Program:
    """A selector that compiled. Safe to share: it changes by what it remembers only."""

    __slots__ = ("_fast", "_precise", "_quick", "reads", "source")

    def __init__(self, source: str, quick: Quick | None, exact: Precise | None, read: Reads) -> None:
        """`exact`: None where it is compiled when it is needed, from a text that is known to compile."""
        self.source = source
        """The selector's text."""
        self.reads = read
        """What it can read: ("attribute" | "capacity" | "field", full name) pairs; None when it may read everything."""
        self._quick = quick
        self._fast = quick.match if quick is not None else None
        self._precise = exact

    @property
    def is_fast(self) -> bool:
        """Whether the selector has a fast form; without one every device costs microseconds."""
        return self._fast is not None

    @property
    def compared(self) -> Collection[int]:
        """Where the string literals begin that are compared by `==` or `!=` only, and not with each other."""
        return self._quick.compared if self._quick is not None else ()

    def saying(self, text: str, values: Mapping[int, str]) -> "Program":
        """Return the program of a text that differs in such literals only, in all of them, with equal lengths."""
        quick = self._quick.saying(values) if self._quick is not None else None
        return Program(text, quick, None, self.reads)

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
        if self._precise is None:
            self._precise = _exact(self.source)[1]
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
    checked, exact = _exact(text)
    return Program(text, fast(checked), exact, reads(checked))


def _exact(text: str) -> tuple[Checked, Precise]:
    root = parse(text)
    checked = check(text, root)
    fold(checked)
    try:
        exact = precise(checked)
    except RecursionError:
        raise SelectorError("compilation failed: the expression is nested too deeply") from None
    return checked, exact


def _boolean(found: Value) -> bool:
    if type(found) is bool:
        return found
    name = name_of(found)
    raise SelectorError(
        f"CEL result of type {name} could not be converted to bool: type conversion error from {name} to 'bool'"
    )
