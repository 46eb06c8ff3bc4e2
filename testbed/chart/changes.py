"""What one manifest has that another lacks.

In: an object before and after. Out: the changes between them, each at a path: keys and items that were added, scalars that became others.
What kustomize's patches do here is all of these kinds; anything else is an error, because the chart could not say it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from testbed.errors import TestbedError

Path: TypeAlias = tuple[str | int, ...]
Yaml: TypeAlias = "Mapping[str, Yaml] | Sequence[Yaml] | str | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class AddedKey:
    """A mapping at `path` has a further key."""

    path: Path
    key: str
    value: Yaml


@dataclass(frozen=True, slots=True)
class AddedItem:
    """A list at `path` has a further item before the one that is at `before` now; its length: at the end."""

    path: Path
    before: int
    value: Yaml


@dataclass(frozen=True, slots=True)
class ChangedScalar:
    """The scalar at `path` is another one."""

    path: Path
    value: Yaml


Change: TypeAlias = AddedKey | AddedItem | ChangedScalar


def changes(before: Yaml, after: Yaml, path: Path = ()) -> Iterator[Change]:
    """Yield what makes `after` of `before`. Raises TestbedError where something went or changed its place."""
    if before == after:
        return
    match before, after:
        case Mapping(), Mapping():
            lost = set(before) - set(after)
            if lost:
                raise TestbedError(
                    f"{_named(path)}: {', '.join(sorted(lost))} went, and the chart can only add"
                )
            for key, value in after.items():
                if key not in before:
                    yield AddedKey(path, key, value)
                else:
                    yield from changes(before[key], value, (*path, key))
        case (str() | int() | float(), str() | int() | float()):
            yield ChangedScalar(path, after)
        case Sequence(), Sequence() if len(before) == len(after):
            for position, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from changes(old, new, (*path, position))
        case Sequence(), Sequence():
            yield from _added(before, after, path)
        case _:
            raise TestbedError(f"{_named(path)}: it became another kind of value, and the chart can only add")


def _added(before: Sequence[Yaml], after: Sequence[Yaml], path: Path) -> Iterator[AddedItem]:
    """Yield the items of a list that are new, if the others are as they were."""
    position = 0
    for item in after:
        if position < len(before) and before[position] == item:
            position += 1
        else:
            yield AddedItem(path, position, item)
    if position < len(before):
        raise TestbedError(
            f"{_named(path)}: an item went, changed or moved while others came; the chart can only add"
        )


def _named(path: Path) -> str:
    return ".".join(str(step) for step in path) or "the object"
