"""Parts of objects that are kept, because others have equal ones, take a bounded part of the memory: what a tenant makes and deletes again is not kept."""

import gc
import tracemalloc
from typing import Any

from apportion.dra.claim import Claim
from apportion.dra.reading import Sharing

MEBIBYTE = 2**20


def test_claims_as_large_as_an_object_may_be_do_not_fill_the_memory() -> None:
    """Some thousand of a megabyte, made and deleted one by one, ended the operator."""
    tracemalloc.start()
    try:
        for number in range(100):
            selectors = [{"cel": {"expression": f"{number}-{row}".ljust(10_000, "x")}} for row in range(32)]
            wanted = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
            Claim.from_json({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [wanted]}}})
        gc.collect()  # when it runs by itself depends on the tests before
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 24 * MEBIBYTE


def test_as_many_small_parts_are_kept_as_before() -> None:
    """Of large ones fewer, and the small ones that come then are kept again."""
    sharing, made = Sharing[str](64), list[str]()

    def make(raw: Any, _at: str) -> str:
        made.append(raw[:9])
        return str(raw)

    def read(*parts: str) -> list[str]:
        made.clear()
        for part in parts:
            sharing.read(part, "", make)
        return [*made]

    small, large = [f"small-{number}" for number in range(48)], [letter * 9_000 for letter in "abcdefgh"]
    assert read(*small) == small
    assert read(*small) == []
    assert read(*large) == [each[:9] for each in large]
    assert read(*small, *small) == small
