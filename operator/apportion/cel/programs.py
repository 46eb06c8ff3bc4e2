"""Compiled selectors by their text; the least recently used one leaves first."""

from collections import OrderedDict

from apportion.cel.literalforms import LiteralForms
from apportion.cel.program import Program
from apportion.errors import SelectorError


class Programs:
    """A bounded cache of programs. For one thread."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._forms = LiteralForms(most)
        self._kept: OrderedDict[str, Program | SelectorError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> Program | SelectorError:
        """Return the program, or why there is none; compiles at most once while the text is remembered."""
        # Failures are kept like successes: a bad selector is asked for once per device and node,
        # and compiling costs a thousand times what evaluating costs.
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
