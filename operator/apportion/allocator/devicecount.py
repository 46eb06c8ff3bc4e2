"""How many devices demands need at least, and how many are free for them at most: bounds that no search is needed for.

In: a state, demands. Out: numbers of devices.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.demand import Demand
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult


def least_devices(state: State, demand: Demand) -> int:
    """Return the fewest devices, unavailable to others afterwards, with which the demand could be served.

    Raises BrokenInput if no state could serve the claims as they are written.
    """
    return sum(
        min(0 if one.everything or one.admin else one.count for one in slot.alternatives)
        for slot in _query(state, demand).slots
    )


def free_devices(state: State, demands: Sequence[Demand]) -> int | None:
    """Return the number of devices that one of the demands could be allocated now, on the nodes that it may use.

    None where it says nothing: a device can serve several demands, or a selector fails on one.
    """
    queries = list({_query(state, demand): None for demand in demands})
    for query in queries:
        state.settle(query)
    nodes: set[str] = set()
    for demand in demands:
        nodes |= state.names().keys() if demand.nodes is None else state.names().keys() & demand.nodes
    alternatives = {one: None for query in queries for one in query.alternatives}
    total = 0
    for name in nodes:
        view = state.view(name)
        mask = 0
        for alternative in alternatives:
            matching, errors = view.selected(alternative, state.selectors)
            if errors:
                return None
            mask |= matching
        if mask & view.shareable:
            return None
        total += (mask & view.fit & ~view.exclusive).bit_count()
    return total


def free_by_node(state: State, demand: Demand) -> dict[str, int] | None:
    """Return which devices the demand could be allocated now, as bits by index, by node, of the nodes that it may use.

    None where it says nothing: a device can serve several demands, or a selector fails on one.
    """
    query = _query(state, demand)
    state.settle(query)
    found: dict[str, int] = {}
    for name in state.names() if demand.nodes is None else state.names().keys() & demand.nodes:
        free = _free(state, query, name)
        if free is None:
            return None
        found[name] = free
    return found


def free_on(state: State, demand: Demand, node: str) -> int | None:
    """Return which devices of one node the demand could be allocated now, as bits by index, whatever nodes it may use.

    None where it says nothing: a device can serve several demands, or a selector fails on one.
    """
    query = _query(state, demand)
    state.settle(query)
    return _free(state, query, node)


def may_serve(state: State, demand: Demand, node: str, released: Iterable[DeviceResult]) -> bool:
    """Say whether a node may have enough devices for the demand once others are released, too; no: counting them rules it out.

    `released`: published ones; some may be of other nodes. Raises BrokenInput as `least_devices` does.
    """
    if node not in state.names():
        return False
    query = _query(state, demand)
    state.settle(query)
    view = state.view(node)
    found = matching(state, query, view)
    return found is None or (found & (view.open | freed(view, released))).bit_count() >= least_devices(
        state, demand
    )


def matching(state: State, query: Query, view: NodeView) -> int | None:
    """Return the devices of a node that some request matches, as bits by index; after `settle`.

    None where it says nothing about how many are served: a device can serve several demands, or a selector fails on one.
    """
    mask = 0
    for alternative in query.alternatives:
        found, errors = view.selected(alternative, state.selectors)
        if errors:
            return None
        mask |= found
    return None if mask & view.shareable else mask


def freed(view: NodeView, results: Iterable[DeviceResult]) -> int:
    """Return the devices of a node that may be free once these are released, as bits by index: they, and those on the same counters."""
    found = 0
    for result in results:
        index = view.find(result.device)
        if index is not None:
            group = view.group_of.get(index)
            found |= view.groups[group[0]].mask if group is not None else 1 << index
    return found


def _free(state: State, query: Query, node: str) -> int | None:
    view = state.view(node)
    found = matching(state, query, view)
    return found & view.open if found is not None else None


def _query(state: State, demand: Demand) -> Query:
    return state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
