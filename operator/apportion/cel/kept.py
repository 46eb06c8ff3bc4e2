"""Kept: a table bounded by the length of the texts that its entries were made of. In: entries with lengths. Out: those used last."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

LONGEST: Final = 1 << 19
"""Characters of the texts of all entries. What one is compiled to takes up to 200 bytes a character, so 100 MB; a usual selector has a
hundred characters."""


class Kept(Generic[Key, Entry]):
    """Entries by key; the least recently used ones leave. For one thread."""

    def __init__(self, most: int, longest: int = LONGEST) -> None:
        """`most`: entries; `longest`: characters of their texts. The entry put last stays, whatever its length."""
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
        while len(self._entries) > 1 and (len(self._entries) > self._most or self._length > self._longest):
            self._length -= self._entries.popitem(last=False)[1][1]
