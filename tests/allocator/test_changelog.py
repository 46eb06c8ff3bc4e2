"""ChangeLog: a reader that keeps its cursor sees every change, or has to read everything."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from apportion.allocator.changelog import ChangeLog


@dataclass
class Reader:
    """A reader with its cursor, and the changes that it has not seen yet."""

    cursor: int
    missed: list[int] = field(default_factory=list)
    void: bool = False
    """The log was voided since the last read: the changes before do not suffice."""


class ReadersOfALog(RuleBasedStateMachine):
    """Writers add changes and void the log, readers read at any time; a list per reader is the reference."""

    readers = Bundle("readers")

    @initialize(most=st.integers(0, 6))
    def start(self, most: int) -> None:
        """Create the log with one bound for all entries."""
        self.most = most
        self.log: ChangeLog[int] = ChangeLog()
        self.all: list[Reader] = []
        self.entries = 0
        self.ends = [self.log.end]

    @rule(target=readers)
    def join(self) -> Reader:
        """A new reader starts at the end."""
        reader = Reader(self.log.end)
        self.all.append(reader)
        return reader

    @rule(times=st.integers(1, 9))
    def add(self, times: int) -> None:
        """Every reader misses the changes until its next read."""
        for _ in range(times):
            self.entries += 1
            self.log.add(self.entries, most=self.most)
            self.ends.append(self.log.end)
            for reader in self.all:
                reader.missed.append(self.entries)

    @rule()
    def void(self) -> None:
        """Every reader must read everything."""
        self.log.void()
        self.ends.append(self.log.end)
        for reader in self.all:
            reader.void = True

    @rule(reader=readers)
    def read(self, reader: Reader) -> None:
        """The reader gets all it missed, in order and once; None only after a void or more changes than the bound."""
        changes = self.log.since(reader.cursor)[1]
        if changes is None:
            assert reader.void or len(reader.missed) > 0
        else:
            assert not reader.void
            assert list(changes) == reader.missed
        reader.cursor, reader.missed, reader.void = self.log.since(reader.cursor)[0], [], False
        assert self.log.since(reader.cursor)[1] == []

    @invariant()
    def no_reader_gets_more_than_the_bound(self) -> None:
        """The log holds at most `most` changes."""
        assert all(len(self.log.since(reader.cursor)[1] or ()) <= self.most for reader in self.all)

    @invariant()
    def the_end_grows_with_every_change(self) -> None:
        """Two different states of the log never have the same end."""
        assert self.ends == sorted(set(self.ends))


@pytest.mark.slow
def test_a_reader_sees_every_change_or_has_to_read_everything() -> None:
    """For any order of changes, voids and reads, any number of readers, and any bound."""
    run_state_machine_as_test(ReadersOfALog, settings=settings(max_examples=200, stateful_step_count=40))


def test_a_reader_within_the_bound_never_has_to_read_everything() -> None:
    """Up to `most` changes after the cursor are returned; one more drops the older ones."""
    log: ChangeLog[str] = ChangeLog()
    start = log.end
    for entry in ("a", "b", "c"):
        log.add(entry, most=3)
    assert log.since(start)[1] == ["a", "b", "c"]
    log.add("d", most=3)
    assert log.since(start)[1] is None
    assert log.since(log.end)[1] == []


def test_a_reader_that_is_half_the_bound_behind_never_has_to_read_everything() -> None:
    """However many changes came before: an overflow drops the cursors of slow readers only."""
    log: ChangeLog[int] = ChangeLog()
    for number in range(100):
        cursor = log.end
        log.add(2 * number, most=5)
        log.add(2 * number + 1, most=5)
        assert log.since(cursor)[1] == [2 * number, 2 * number + 1]


def test_after_a_void_every_reader_has_to_read_everything() -> None:
    """Also a reader that has seen every change, and also if nothing is added afterwards."""
    log: ChangeLog[str] = ChangeLog()
    log.add("a", most=3)
    cursor = log.end
    log.void()
    assert log.since(cursor)[1] is None
    assert log.since(log.end)[1] == []
