"""Memo: a bounded table of results that can be computed again.

In: results by key. Out: the same results, until the table is full; then it is emptied. The module that computes a result
names the bound in a constant `MOST_...` (docs/caches.md lists all of them).
"""

from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def keep(table: dict[Key, Value], key: Key, value: Value, most: int) -> Value:
    """Store in a plain dictionary that is emptied when a new entry would exceed `most`; return the value.

    Hot paths use this in place of a Memo, because the interpreter reads plain dictionaries faster than a subclass.
    """
    if len(table) >= most and key not in table:
        table.clear()
    table[key] = value
    return value


_store = dict.__setitem__


class Memo(dict[Key, Value]):
    """A dictionary that is emptied when a new entry would exceed the bound."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        """`most`: entries kept."""
        # `dict.__new__` has made the table; states of groups make many memos, so nothing else is called.
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self) >= self._most and key not in self:
            self.clear()
        # Most keys are new, and the interpreter calls `setdefault` faster than the inherited `__setitem__`.
        if self.setdefault(key, value) is not value:
            _store(self, key, value)


class Topic(Generic[Key, Value]):
    """Key of a table that an upper module keeps on an object of a lower one, with the most entries that it may hold."""

    __slots__ = ("most", "name")

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most


class Memos:
    """Base of objects that carry tables of upper modules, without imports of those modules."""

    __slots__ = ()
    memos: dict[Topic[Any, Any], dict[Any, Any]]
    """The tables made so far; hot paths look here before they call `memo`."""

    def memo(self, topic: Topic[Key, Value]) -> dict[Key, Value]:
        """Return the table of this topic, to be filled by `keep`; the first call creates it."""
        found: dict[Key, Value] | None = self.memos.get(topic)
        if found is None:
            found = self.memos[topic] = {}
        return found
