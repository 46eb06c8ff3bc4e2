"""When the garbage collector runs while claims wait."""

import gc

import pytest

from apportion.collector import NEVER, Collector


def test_only_young_objects_are_collected_while_claims_wait() -> None:
    """A pass over a hundred thousand surviving objects would delay a claim by 60 ms."""
    passes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            passes.append(info["generation"])

    former = gc.get_threshold()
    Collector().take_over(1000.0)
    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(150_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*former)
        gc.unfreeze()
    assert len(kept) == 150_000
    assert set(passes) == {0}


def test_full_collections_run_only_at_quiet_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """New objects every minute, all objects every hour, nothing in between."""
    done: list[str] = []
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(f"gc.{name}", lambda name=name: done.append(name))
    thresholds: list[tuple[int, ...]] = []
    monkeypatch.setattr("gc.set_threshold", lambda *values: thresholds.append(values))
    collector = Collector()

    collector.take_over(1000.0)
    assert thresholds[0][2] == NEVER
    assert done == ["unfreeze", "collect", "freeze"]
    done.clear()
    collector.quiet(1030.0)
    assert done == []
    collector.quiet(1061.0)
    assert done == ["collect", "freeze"]
    done.clear()
    collector.quiet(4700.0)
    assert done == ["unfreeze", "collect", "freeze"]
