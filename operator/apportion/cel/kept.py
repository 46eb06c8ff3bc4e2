"""Kept: a table bounded by the length of the texts that its entries were made of. In: entries with lengths. Out: those used last."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

LONGEST: Final = 1 << 19
"""Characters of the texts of all entries. What one is compiled to takes up to 200 bytes a character, so 100 MB; a usual selector has a
hundred characters."""
_FEW: Final = 64
"""Sizes are added up each time when one of so many entries is new: to do that for each would take a third of a millisecond."""


class Kept(Generic[Key, Entry]):
    """Entries by key; the least recently used ones leave. For one thread."""

    def __init__(
        self,
        most: int,
        longest: int = LONGEST,
        *,
        size: Callable[[Entry], int] | None = None,
        largest: int = 0,
    ) -> None:
        """`most`: entries; `longest`: characters of their texts. The entry put last stays, whatever its length.

        Entries may grow later: `size` says how large one is by now, and `largest` is what all may be when others come.
        """
        self._size = size
        self._since = 0
        """Entries put since all sizes were added up."""
        self._largest = largest
        self._most = most
        self._longest = longest
        self._length = 0
        self._entries: OrderedDict[Key, tuple[Entry, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Entry | None:
        """Return the entry, which counts as used now; None where none is kept."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Key, entry: Entry, length: int) -> None:
        """Keep an entry whose text has this length."""
        former = self._entries.pop(key, None)
        self._length += length - (former[1] if former is not None else 0)
        self._entries[key] = entry, length
        size, total = self._size, 0
        self._since += 1
        if size is not None and self._since * _FEW >= len(self._entries):
            self._since = 0
            total = sum([size(each) for each, _ in self._entries.values()])
        while len(self._entries) > 1 and (
            len(self._entries) > self._most or self._length > self._longest or total > self._largest
        ):
            _, (gone, its_length) = self._entries.popitem(last=False)
            self._length -= its_length
            total -= size(gone) if size is not None else 0
