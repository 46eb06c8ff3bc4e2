"""CP-SAT: the highest number of claims that a small cluster can serve.

In: a state, demands of one device each. Out: a number. Placements are read from the state's views.
"""

from collections.abc import Sequence
from typing import Any

from ortools.sat.python import cp_model

from apportion.allocator.demand import Demand
from apportion.allocator.state import State


def most_served(state: State, demands: Sequence[Demand]) -> int:
    """Return the highest number of claims that can be served together."""
    model = cp_model.CpModel()
    used: dict[Any, list[Any]] = {}
    total: dict[Any, int] = {}
    chosen = []
    placements = 0
    for name in state.names():
        view = state.view(name)
        for number, group in enumerate(view.groups):
            placements += len(group.members)
            for counter, amount in enumerate(group.totals):
                total[name, number, counter] = amount
    assert placements <= 40
    for demand in demands:
        (slot,) = demand.claims[0].slots
        kind = slot.alternatives[0].selectors[0].split('"')[-2]
        mine = []
        for name in state.names():
            view = state.view(name)
            for number, group in enumerate(view.groups):
                for local, member in enumerate(group.members):
                    if view.devices[member].attribute("gpu.example.com/kind") != kind:
                        continue
                    taken = model.new_bool_var("")
                    mine.append(taken)
                    used.setdefault((name, member), []).append((1, taken))
                    for counter, amount in group.group_type.needs[local]:
                        used.setdefault((name, number, counter), []).append((amount, taken))
        model.add(sum(mine) <= 1)
        chosen += mine
    for thing, takers in used.items():
        if len(thing) == 2:
            model.add(sum(taken for _, taken in takers) <= 1)
        else:
            model.add(sum(amount * taken for amount, taken in takers) <= total[thing])
    model.maximize(sum(chosen))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)
