"""The best that anybody could do with the last devices of a cluster, who knows the demand and how much of it comes.

In: what claims ask for, with what chance; free devices per node and model. Out: expected claims that find no place, by
dynamic programming over every state. Exact, and feasible for some twenty devices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

State: TypeAlias = tuple[tuple[int, ...], ...]
"""Per model the free devices of its nodes, most first; nodes without any are left out."""

Choice: TypeAlias = tuple[int, int]
"""A model, and the free devices of the node that is taken from."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """One demand."""

    sizes: Mapping[int, float]
    """Devices that a claim asks for, all from one node, by chance; at most as many as are still to be asked for."""
    models: Mapping[tuple[int, ...], float]
    """Models that a claim can use, by chance."""
    _known: dict[tuple[State, int], float] = field(default_factory=dict)

    def losses(self, state: State, coming: int) -> float:
        """Return the claims that will find no place, `coming`: devices that will be asked for."""
        if not coming:
            return 0.0
        key = state, coming
        found = self._known.get(key)
        if found is None:
            found = sum(
                chance * part * self._served(state, coming, min(size, coming), models)
                for size, chance in self.sizes.items()
                for models, part in self.models.items()
            )
            self._known[key] = found
        return found

    def regret(self, state: State, coming: int, count: int, models: Sequence[int], made: Choice) -> float:
        """Return the claims more that a choice will cost than the best one. `coming`: this claim's devices included."""
        rest = coming - count
        return self.losses(after(state, made, count), rest) - self._served(state, coming, count, models)

    def _served(self, state: State, coming: int, count: int, models: Sequence[int]) -> float:
        rest = coming - count
        return min(
            (self.losses(after(state, choice, count), rest) for choice in choices(state, count, models)),
            default=1 + self.losses(state, rest),
        )


def choices(state: State, count: int, models: Sequence[int]) -> Iterator[Choice]:
    """Yield the places where a claim fits; nodes alike are one."""
    for model in models:
        for free in dict.fromkeys(state[model]):
            if free >= count:
                yield model, free


def after(state: State, made: Choice, count: int) -> State:
    """Return what is left when a claim has taken its devices."""
    model, free = made
    nodes = list(state[model])
    nodes.remove(free)
    if free > count:
        nodes.append(free - count)
    return (*state[:model], tuple(sorted(nodes, reverse=True)), *state[model + 1 :])
