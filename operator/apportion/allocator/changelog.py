"""ChangeLog: the changes since a reader last read them.

In: entries in the order of the changes. Out: for each reader the entries after its cursor. Readers keep their cursors.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

Entry = TypeVar("Entry")


class ChangeLog(Generic[Entry]):
    """A bounded log with a cursor per reader; a reader whose cursor was dropped must read everything."""

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._start = 0

    def add(self, entry: Entry, *, most: int) -> None:
        """Append a change. Beyond `most` entries the older ones leave, half of `most` stay, and cursors before these are dropped."""
        entries = self._entries
        entries.append(entry)
        if len(entries) > most:
            leaving = len(entries) - most // 2
            self._start += leaving
            del entries[:leaving]

    def void(self) -> None:
        """Drop every cursor, so that every reader reads everything."""
        self._start += len(self._entries) + 1
        self._entries.clear()

    @property
    def end(self) -> int:
        """Return the cursor after the latest change; it grows with every change."""
        return self._start + len(self._entries)

    def since(self, cursor: int) -> tuple[int, Sequence[Entry] | None]:
        """Return the cursor after the latest change, and the changes after the given one; None: it was dropped."""
        start, entries = self._start, self._entries
        return start + len(entries), entries[cursor - start :] if cursor >= start else None


class NodeLog(Protocol):
    """The members of the state that the ranking reads."""

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes that changed after the cursor (None: too long ago, read all)."""
        ...

    def names(self) -> Mapping[str, object]:
        """Return every node."""
        ...
