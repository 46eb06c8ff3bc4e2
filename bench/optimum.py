"""The optimal policy for the last devices of a cluster, with the distribution and the amount of the demand known.

In: probabilities of the claims' sizes and models; free devices per node and model. Out: expected unplaced claims, by
dynamic programming over every state. Exact; feasible for about twenty devices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

State: TypeAlias = tuple[tuple[int, ...], ...]
"""Per model the free devices of its nodes, descending; nodes without free devices are left out."""

Choice: TypeAlias = tuple[int, int]
"""A model, and the free devices of the chosen node."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The optimum for one demand."""

    sizes: Mapping[int, float]
    """Devices of a claim, all on one node -> probability; cut to the devices still to be requested."""
    models: Mapping[tuple[int, ...], float]
    """Models a claim can use -> probability."""
    _known: dict[tuple[State, int], float] = field(default_factory=dict)

    def losses(self, state: State, coming: int) -> float:
        """Return the expected unplaced claims. `coming`: devices still to be requested."""
        if not coming:
            return 0.0
        key = state, coming
        found = self._known.get(key)
        if found is None:
            found = sum(
                chance * fraction * self._served(state, coming, min(size, coming), models)
                for size, chance in self.sizes.items()
                for models, fraction in self.models.items()
            )
            self._known[key] = found
        return found

    def regret(self, state: State, coming: int, count: int, models: Sequence[int], made: Choice) -> float:
        """Return the expected unplaced claims of a choice beyond those of the best one. `coming`: this claim's devices included."""
        rest = coming - count
        return self.losses(after(state, made, count), rest) - self._served(state, coming, count, models)

    def _served(self, state: State, coming: int, count: int, models: Sequence[int]) -> float:
        rest = coming - count
        return min(
            (self.losses(after(state, choice, count), rest) for choice in choices(state, count, models)),
            default=1 + self.losses(state, rest),
        )


def choices(state: State, count: int, models: Sequence[int]) -> Iterator[Choice]:
    """Yield the choices for a claim; equal nodes are one choice."""
    for model in models:
        for free in dict.fromkeys(state[model]):
            if free >= count:
                yield model, free


def after(state: State, made: Choice, count: int) -> State:
    """Return the state after a claim took its devices."""
    model, free = made
    nodes = list(state[model])
    nodes.remove(free)
    if free > count:
        nodes.append(free - count)
    return (*state[:model], tuple(sorted(nodes, reverse=True)), *state[model + 1 :])
