"""Idle partitions that a choice would destroy: live ones that nobody holds, and whose counters somebody else takes.

In: a node's view, what was picked, the idle devices. Out: what their loss is worth, in the unit of scores. It is a part
of the room that they take, since the room itself is not lost: what is lost is that the next claim finds one cut.
"""

from collections.abc import Iterable, Sequence

from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.prices import DemandPrices
from apportion.allocator.search.search import Pick

PART = 8
"""An eighth: enough to choose among places that cost the demand much the same, too little to open a whole device."""


def worth_destroyed(view: NodeView, prices: DemandPrices, picks: Sequence[Pick], idle: Iterable[int]) -> int:
    """Return what the idle devices are worth that no longer fit beside the picks."""
    picked = {pick.device for pick in picks}
    after: dict[int, GroupState] = {}
    for device in picked & view.group_of.keys():
        number, local = view.group_of[device]
        after[number] = after.get(number, view.groups[number].state).after(local)
    groups_prices = prices.of(view).groups_prices
    lost = 0
    for device in idle:
        number, local = view.group_of.get(device, (-1, 0))
        if number not in after or device in picked or after[number].fits >> local & 1:
            continue
        state = view.groups[number].state
        if state.fits >> local & 1:
            lost += groups_prices[number].worth(state) - groups_prices[number].worth(state.after(local))
    return lost // PART
