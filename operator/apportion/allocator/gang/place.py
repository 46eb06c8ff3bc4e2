"""place_gang(): choose devices for several demands of a gang: for all, for enough of them, or for none.

In: members with a demand each, how close their nodes have to be. Out: a decision per member, which are held; or the first member that
was refused. If an earlier member took the devices that a later one needs, those that need the most are tried first, and then the one that was refused. Orders that
differ only in members of one kind are one order.

The work is done in steps, between which others may change the state.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence

from apportion.allocator.gang.closest import place_closest
from apportion.allocator.gang.count import hardest_first, kind_of
from apportion.allocator.gang.domains import GroupLadder
from apportion.allocator.gang.fill import GangFill
from apportion.allocator.gang.members import DomainShortage, GangAnswer, GangRefused, GangServed, Member
from apportion.allocator.gang.placed import PlacedMembers
from apportion.dra.device import DeviceId

TRIES = 16
"""Orders of members tried at most."""
MOST_ASKED = 2048
"""Members in all orders after the first: a large gang is tried in fewer orders."""


def place_gang(
    placed: PlacedMembers,
    members: Sequence[Member],
    *,
    enough: int,
    most: int | None = None,
    prefer: Mapping[DeviceId, int] | None = None,
    ladder: GroupLadder | None = None,
) -> Generator[None, None, GangAnswer]:
    """Serve as many members as fit if they have at least `enough` pods together, else none; `most`: no more pods than this.

    Yields after each member. The decisions of an answer that serves are held by `placed`. A gang of one kind asks each member at most
    once on the same nodes, as long as others change nothing; otherwise at most TRIES orders are tried.

    Raises BrokenInput if a member's claims cannot be served by any state as they are written.
    """
    all_pods = sum(each.pods for each in members)
    failed: GangRefused | DomainShortage | None = None
    asked = 0
    for order in _orders(members):
        placed.clear()
        gang = GangFill(
            placed, members, enough, all_pods if most is None else min(most, all_pods), prefer or {}
        )
        shortage: DomainShortage | None = None
        if ladder is not None and ladder.rungs:
            shortage = yield from place_closest(gang, order, ladder, first=failed is None)
        else:
            yield from gang.fill(order, need=enough)
        if gang.served >= enough:
            return GangServed(tuple(placed.decisions.get(index) for index in range(len(members))))
        first = gang.refused or (order[0], None)
        if failed is None:
            failed = shortage or GangRefused(*first, gang.served)
        else:
            asked += len(members)
        if asked + len(members) > MOST_ASKED:
            break
        placed.clear()
        hardest = [*order] if asked else hardest_first(placed.state, members, placed.demands)
        if hardest == order:
            hardest.remove(first[0])
            hardest.insert(0, first[0])
        order[:] = hardest
    placed.clear()
    if failed is None:
        raise TypeError("a gang needs members")
    return failed


def _orders(members: Sequence[Member]) -> Iterator[list[int]]:
    """Yield a list that the caller reorders, while its order is a new one."""
    order = list(range(len(members)))
    tried: set[tuple[object, ...]] = set()
    while len(tried) < TRIES and (kinds := tuple(kind_of(members, each) for each in order)) not in tried:
        tried.add(kinds)
        yield order
