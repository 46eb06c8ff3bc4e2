"""One compilation for all selectors that compare with other strings of equal length and say the same otherwise.

In: a text. Out: a program. `device.attributes["d"].uuid == "A"` and `... == "B"` are one form: what a string literal
says that is compared by `==` or `!=`, with something that is no literal, decides nothing before a device is seen.
Lengths count, since positions in messages and bounds of costs depend on them.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from apportion.cel.program import Program, compile_selector

_ODD: Final = ("'", "`", "\\", "//", "\r", '"""')
"""Where one of these occurs, quotes alone do not tell what is a literal."""


class LiteralForms:
    """A bounded memory of compiled forms. For one thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._forms: OrderedDict[tuple[object, tuple[str, ...]], Program] = OrderedDict()
        """By frame, and by what the literals say that are not compared."""
        self._compared: OrderedDict[object, Collection[int]] = OrderedDict()
        """Where the compared literals begin, by frame: what is outside the literals tells which they are."""

    def compile(self, text: str) -> Program:
        """Compile a selector; raises SelectorError as `compile_selector` does, for the same texts."""
        pieces = text.split('"')
        inside = pieces[1::2]
        if not inside or not len(pieces) % 2 or any(odd in text for odd in _ODD) or "\n" in "".join(inside):
            return compile_selector(text)
        frame = tuple(pieces[::2]), tuple(map(len, inside))
        literals = _places(pieces)
        compared = self._compared.get(frame)
        if compared is not None:
            form = self._forms.get((frame, _others(literals, compared)))
            if form is not None:
                return form.saying(text, {at: literals[at] for at in compared})
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


def _places(pieces: Sequence[str]) -> Mapping[int, str]:
    """Return the literals by where they begin, each with a quote."""
    found, at = {}, 0
    for number, piece in enumerate(pieces):
        if number % 2:
            found[at] = piece
            at += 2
        at += len(piece)
    return found


def _others(literals: Mapping[int, str], compared: Collection[int]) -> tuple[str, ...]:
    return tuple([piece for at, piece in literals.items() if at not in compared])
