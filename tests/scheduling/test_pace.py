"""Changed: what was looked at costs neither memory nor time in later passes."""

import tracemalloc

from apportion.scheduling.pace import Changed


def test_nothing_is_kept_of_what_was_looked_at() -> None:
    names, looked = [f"claim-{number}" for number in range(20_000)], set[str]()
    changed = Changed[str]()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in changed.steps(names, looked.discard):
            pass
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(changed) == 0
    # A dict of which all was taken out keeps its table, through which every later pass would go.
    assert after - before < 4_096
