"""visible(): texts as a terminal may be given them.

In: a text with values that anybody may have written: selectors, parameters of claims, names of schedulers. Out: the same, its control characters as they are written in
Python. To a terminal they are orders: to clear the screen, to write elsewhere on it, to fill the clipboard.
"""

import re
from typing import Final

_ORDERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters (C0 without tabulator and line feed, DEL, C1), and halves of surrogate pairs, which cannot be written at all."""


def visible(text: str) -> str:
    """Return a text without control characters."""
    return _ORDERS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
