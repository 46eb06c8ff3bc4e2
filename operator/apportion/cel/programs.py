"""A cache of compiled selectors. In: texts. Out: programs, or the errors of texts that do not compile."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from apportion.cel.program import Program, compile_selector
from apportion.errors import SelectorError

_AMBIGUOUS: Final = ("'", "`", "\\", "//", "\r", '"""')
"""In a text with one of these, double quotes alone do not delimit the literals."""


class Programs:
    """A bounded cache of programs by text; the least recently used one is dropped. For one thread."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._forms = _LiteralForms(most)
        self._kept: OrderedDict[str, Program | SelectorError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> Program | SelectorError:
        """Return the program, or the error of compiling it; compiles at most once while the text is kept."""
        # Errors are kept too: a bad selector is asked for as often as a good one, and compiling costs a thousand
        # times what evaluating costs.
        found = self._kept.get(text)
        if found is None:
            try:
                found = self._forms.compile(text)
            except SelectorError as error:
                found = error
            self._kept[text] = found
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(text)
        return found


class _LiteralForms:
    """Compiles once selectors that differ only in equally long strings compared by `==` or `!=`. Bounded; for one thread.

    `device.attributes["d"].uuid == "A"` and `... == "B"` have one form. Lengths count, since offsets in messages and the bound
    of costs depend on them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._forms: OrderedDict[tuple[object, tuple[str, ...]], Program] = OrderedDict()
        """By frame and by the literals that are not compared. A frame: the text between literals, and their lengths."""
        self._compared: OrderedDict[object, Collection[int]] = OrderedDict()
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
            self._keep(frame, literals, form)
        return form

    def _keep(self, frame: object, literals: Mapping[int, str], form: Program) -> None:
        self._compared[frame] = form.compared
        self._forms[frame, _others(literals, form.compared)] = form
        for kept in (self._compared, self._forms):
            if len(kept) > self._most:
                kept.popitem(last=False)


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
