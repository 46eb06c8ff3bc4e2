"""A compiled selector. In: its text. Out: a Program, which returns match, no match or an error for a device."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from apportion.cel.check.checked import Checked, fold_constants
from apportion.cel.check.checker import check
from apportion.cel.check.reads import Reads, reads
from apportion.cel.evaluate.device import cel_device
from apportion.cel.evaluate.precise import Precise, precise
from apportion.cel.fast.compiler import FastForm, fast_form
from apportion.cel.syntax.parse import parse
from apportion.cel.values import CelFailure, CostExceeded, Value, name_of
from apportion.dra.device import Device
from apportion.errors import SelectorError

_LONGEST_MESSAGE: Final = 200


class Program:
    """A compiled selector. Can be shared: only the precise form that it makes on demand changes."""

    __slots__ = ("_fast", "_form", "_precise", "reads", "source")

    def __init__(self, source: str, fast: FastForm | None, exact: Precise | None, read: Reads) -> None:
        """`exact`: None for a text that is known to compile; it is then compiled when it is needed."""
        self.source = source
        """The selector's text."""
        self.reads = read
        """What it can read: ("attribute" | "capacity" | "field", full name) pairs; None when it may read everything."""
        self._form = fast
        self._fast = fast.match if fast is not None else None
        self._precise = exact

    @property
    def compared(self) -> Collection[int]:
        """Offsets of the string literals that are only compared by `==` or `!=`, and not with each other."""
        return self._form.compared if self._form is not None else ()

    def with_literals(self, text: str, values: Mapping[int, str]) -> "Program":
        """Return the program of a text that differs only in the `compared` literals; their lengths must be equal."""
        form = self._form.with_literals(values) if self._form is not None else None
        return Program(text, form, None, self.reads)

    def match(self, device: Device) -> bool:
        """Return whether the device matches; raises SelectorError with a short message when evaluation fails."""
        if self._fast is not None:
            try:
                return self._fast(device)
            except Exception:  # noqa: BLE001, S110 - the precise form decides what any exception means
                pass
        return self.match_precisely(device)

    def match_precisely(self, device: Device) -> bool:
        """Match without the fast form; raises SelectorError as `match` does."""
        if self._precise is None:
            self._precise = _exact(self.source)[1]
        try:
            found = self._precise(cel_device(device).value)
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
        """Match many devices, in order; an error is returned in the device's place instead of raised."""
        out: list[bool | SelectorError] = []
        fast = self._fast
        for device in devices:
            if fast is not None:
                try:
                    out.append(fast(device))
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
    return Program(text, fast_form(checked), exact, reads(checked))


def _exact(text: str) -> tuple[Checked, Precise]:
    root = parse(text)
    checked = check(text, root)
    fold_constants(checked)
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
