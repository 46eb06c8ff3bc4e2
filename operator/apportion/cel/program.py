"""Compiled selectors and their cache. In: texts. Out: programs, which return match, no match or an error for a device."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from apportion.cel.check.checked import Checked, fold_constants
from apportion.cel.check.checker import check
from apportion.cel.check.reads import Reads, reads
from apportion.cel.evaluate.closures import Run
from apportion.cel.evaluate.device import cel_device
from apportion.cel.evaluate.precise import Precise, precise
from apportion.cel.fast.compiler import FastForm, fast_form
from apportion.cel.fast.cost import worst_cost
from apportion.cel.kept import Kept
from apportion.cel.syntax.parse import parse
from apportion.cel.values import COST_LIMIT, VISITS, CelFailure, CostExceeded, Value, name_of
from apportion.dra.device import Device
from apportion.errors import SelectorError

_LONGEST_MESSAGE: Final = 200
_AMBIGUOUS: Final = ("'", "`", "\\", "//", "\r", '"""')
"""In a text with one of these, double quotes alone do not delimit the literals."""


class Program:
    """A compiled selector. Can be shared: only the precise form that it makes on demand changes."""

    __slots__ = ("_fast", "_form", "_precise", "bound", "reads", "source")

    def __init__(
        self, source: str, fast: FastForm | None, exact: Precise | None, read: Reads, bound: int
    ) -> None:
        """`exact`: None for a text that is known to compile; it is then compiled when it is needed."""
        self.source = source
        """The selector's text."""
        self.reads = read
        """What it can read: ("attribute" | "capacity" | "field", full name) pairs; None when it may read everything."""
        self.bound = min(bound, COST_LIMIT)
        """Upper bound of the cost units of one evaluation, on a device that keeps the API's limits."""
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
        return Program(text, form, None, self.reads, self.bound)

    def match(self, device: Device) -> bool:
        """Return whether the device matches; raises SelectorError with a short message when evaluation fails."""
        if self._fast is not None:
            VISITS.restart()
            try:
                return self._fast(device)
            except Exception:  # noqa: BLE001, S110 - the precise form decides what any exception means
                pass
        return self.match_precisely(device)

    def match_precisely(self, device: Device) -> bool:
        """Match without the fast form; raises SelectorError as `match` does."""
        exact = self._exact()
        return _finished(exact, exact.start(cel_device(device).value))

    def measure(self, device: Device) -> tuple[bool | SelectorError, int]:
        """Return the result, or the error, and the cost units that the evaluation spent, whatever it ended in."""
        exact = self._exact()
        run = exact.start(cel_device(device).value)
        try:
            return _finished(exact, run), run.cost
        except SelectorError as error:
            return error.bare(), run.cost

    def matches(self, devices: Iterable[Device]) -> list[bool | SelectorError]:
        """Match many devices, in order; an error is returned in the device's place instead of raised."""
        out: list[bool | SelectorError] = []
        fast = self._fast
        for device in devices:
            if fast is not None:
                VISITS.restart()
                try:
                    out.append(fast(device))
                except Exception:  # noqa: BLE001, S110 - as in `match`
                    pass
                else:
                    continue
            try:
                out.append(self.match_precisely(device))
            except SelectorError as error:
                out.append(error.bare())
        return out

    def _exact(self) -> Precise:
        if self._precise is None:
            self._precise = _exact(self.source)[1]
        return self._precise


def compile_selector(text: str) -> Program:
    """Compile a selector; raises SelectorError with line and column when it cannot be one."""
    checked, exact = _exact(text)
    try:
        bound = worst_cost(checked)
    except RecursionError:
        bound = COST_LIMIT
    return Program(text, fast_form(checked, bound), exact, reads(checked), bound)


def _exact(text: str) -> tuple[Checked, Precise]:
    root = parse(text)
    checked = check(text, root)
    fold_constants(checked)
    try:
        exact = precise(checked)
    except RecursionError:
        raise SelectorError("compilation failed: the expression is nested too deeply") from None
    return checked, exact


def _finished(exact: Precise, run: Run) -> bool:
    try:
        found = exact.finish(run)
    except CelFailure as failure:
        raise SelectorError(f"CEL runtime error: {str(failure)[:_LONGEST_MESSAGE]}") from None
    except CostExceeded:
        raise SelectorError("CEL runtime error: operation cancelled: actual cost limit exceeded") from None
    except RecursionError:
        raise SelectorError("CEL runtime error: nested too deeply") from None
    return _boolean(found)


def _boolean(found: Value) -> bool:
    if type(found) is bool:
        return found
    name = name_of(found)
    raise SelectorError(
        f"CEL result of type {name} could not be converted to bool: type conversion error from {name} to 'bool'"
    )


class Programs:
    """A cache of programs by text, bounded by their number and the length of their texts; the least recently used one is dropped. For one thread."""

    def __init__(self, most: int = 512) -> None:
        self._forms = _LiteralForms(most)
        self._kept: Kept[str, Program | SelectorError] = Kept(most)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> Program | SelectorError:
        """Return the program, or the error of compiling it; compiles at most once while the text is kept."""
        found = self._kept.get(text)
        if found is None:
            # Errors are kept too: a bad selector is asked for as often as a good one, and compiling costs a thousand
            # times what evaluating costs.
            try:
                found = self._forms.compile(text)
            except SelectorError as error:
                found = error.bare()
            self._kept.put(text, found, len(text))
        return found


class _LiteralForms:
    """Compiles once selectors that differ only in equally long strings compared by `==` or `!=`. Bounded; for one thread.

    `device.attributes["d"].uuid == "A"` and `... == "B"` have one form. Lengths count, since offsets in messages and the bound
    of costs depend on them.
    """

    def __init__(self, most: int) -> None:
        self._forms: Kept[tuple[object, tuple[str, ...]], Program] = Kept(most)
        """By frame and by the literals that are not compared. A frame: the text between literals, and their lengths."""
        self._compared: Kept[object, Collection[int]] = Kept(most)
        """Offsets of the compared literals, by frame: the text between literals decides which they are."""

    def compile(self, text: str) -> Program:
        """Compile a selector; raises SelectorError as `compile_selector` does, for the same texts."""
        parts = text.split('"')
        inside = parts[1::2]
        if (
            not inside
            or not len(parts) % 2
            or any(mark in text for mark in _AMBIGUOUS)
            or "\n" in "".join(inside)
        ):
            return compile_selector(text)
        frame = tuple(parts[::2]), tuple(map(len, inside))
        literals = _by_offset(parts)
        compared = self._compared.get(frame)
        if compared is not None:
            form = self._forms.get((frame, _others(literals, compared)))
            if form is not None:
                return form.with_literals(text, {at: literals[at] for at in compared})
        form = compile_selector(text)
        if form.compared and literals.keys() >= set(form.compared):
            self._compared.put(frame, form.compared, len(text))
            self._forms.put((frame, _others(literals, form.compared)), form, len(text))
        return form


def _by_offset(parts: Sequence[str]) -> Mapping[int, str]:
    """Return the literals by the offset of their opening quote."""
    found, at = {}, 0
    for number, part in enumerate(parts):
        if number % 2:
            found[at] = part
            at += 2
        at += len(part)
    return found


def _others(literals: Mapping[int, str], compared: Collection[int]) -> tuple[str, ...]:
    return tuple([part for at, part in literals.items() if at not in compared])
