"""When the garbage collector runs while claims wait."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import ref

import pytest

from apportion.collector import FEW, LATEST, NEVER, WHOLE_LATEST, YOUNG, Collector

pytestmark = pytest.mark.slow


@contextmanager
def restored() -> Iterator[None]:
    """Leave the garbage collector as it was."""
    former, collects = gc.get_threshold(), gc.isenabled()
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.unfreeze()
        if collects:
            gc.enable()


def test_what_is_loaded_is_collected_once() -> None:
    """80,000 objects of a large cluster come at once, and stay. At the end Python collects as before."""
    former = gc.get_threshold()
    with restored():
        collector = Collector()
        collector.load()
        assert gc.get_threshold()[2] == NEVER
        collector.take_over(1000.0)
        assert gc.get_freeze_count() > 0
        collector.end()
        assert gc.get_threshold() == former
        assert gc.get_freeze_count() == 0


def test_only_young_objects_are_collected_while_claims_wait() -> None:
    """A pass over a hundred thousand surviving objects would delay a claim by 60 ms."""
    passes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            passes.append(info["generation"])

    with restored():
        Collector().take_over(1000.0)
        gc.callbacks.append(note)
        try:
            kept = [[number] for number in range(150_000)]
        finally:
            gc.callbacks.remove(note)
    assert len(kept) == 150_000
    assert set(passes) == {0}


class Garbage:
    """An object that only the collector frees, because it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_full_collections_run_only_at_quiet_moments() -> None:
    """New objects every minute, all objects every hour, nothing in between."""
    collector, loaded = Collector(), Garbage()
    with restored():
        collector.take_over(1000.0)
        gc.disable()
        assert gc.get_threshold()[2] == NEVER
        new, old = ref(Garbage()), ref(loaded)
        del loaded
        collector.quiet(1030.0)
        assert new() is not None
        collector.quiet(1061.0)
        assert new() is None
        assert old() is not None
        collector.quiet(4700.0)
        assert old() is None


def test_a_busy_operator_collects_few_objects_at_a_time_and_new_ones_now_and_then() -> None:
    """It is never quiet; garbage that outlived the young generations would fill its memory."""
    passes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            passes.append(info["generation"])

    collector = Collector()
    with restored():
        collector.take_over(1000.0)
        gc.callbacks.append(note)
        try:
            collector.busy(1001.0)
            assert 1 not in passes
            kept = [[number] for number in range((FEW + 1) * YOUNG)]
            collector.busy(1002.0)
            assert passes.count(1) == 1
            collector.busy(1003.0)
            assert passes.count(1) == 1
            gc.disable()
            garbage = ref(Garbage())
            gc.collect(1)
            collector.busy(1000.0 + LATEST - 1.0)
            assert 2 not in passes
            collector.busy(1000.0 + LATEST)
            assert passes.count(2) == 1
            assert garbage() is None
            frozen = Garbage()
            gc.freeze()
            garbage = ref(frozen)
            del frozen
            collector.busy(1000.0 + WHOLE_LATEST - 1.0)
            assert garbage() is not None
            collector.busy(1000.0 + WHOLE_LATEST)
            assert garbage() is None
        finally:
            gc.callbacks.remove(note)
    assert len(kept) == (FEW + 1) * YOUNG
