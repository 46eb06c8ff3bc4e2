"""Levels: objects and lists in each other, of which the API server stores more than Python can walk through and orjson writes.

In: an object. Out: the same, without what is nested too deeply in it. Only parameters of claims can be: those that the operator does not read
(`dra/reading.py`, `opaque`) stay too deep for it, so that the claim counts as it does for the operator.
"""

from typing import Any

import orjson

from apportion.dra.reading import Json

DEEPEST = 150
"""Levels that are kept. The operator reads 100 of them below `opaque`, which is eight below its object at most; orjson writes 254."""


def is_writable(raw: Json) -> bool:
    """Say whether an object can be written as JSON: it is not too deep, and has no value that JSON cannot say."""
    try:
        orjson.dumps(raw)
    except TypeError:
        return False
    return True


def cut(raw: Json) -> Json:
    """Return an object with null in place of what is nested too deeply."""
    found: Json = _cut(raw, DEEPEST)
    return found


def _cut(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return {key: _cut(each, levels - 1) for key, each in value.items()} if levels else None
    if isinstance(value, list):
        return [_cut(each, levels - 1) for each in value] if levels else None
    return value
