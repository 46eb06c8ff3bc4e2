"""group_within_limits(): what a group gets within the limits of its quota.

In: a group, a way to ask what it gets where its demands ask so. Out: decisions for enough of its pods, within the limits; or why there are none. As with
a single demand, what exceeds a limit is asked about anew with less of that, all such demands of the group at once: they may get another model, profile or
alternative. Where that leads to fewer pods, those that exceed a limit go without.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from apportion.allocator.gang.members import DeviceShortage, GangAnswer, GangServed
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.quota.batch import BatchAdmission, GroupWithin
from apportion.scheduling.quota.overlimit import OverLimit

TRIES = 40
"""How often a group is asked about at most; a quota has 32 resources."""
Answered: TypeAlias = Generator[None, None, GangAnswer | DeviceShortage | None]
"""What a group gets; None: something changed, so that the next pass has to decide."""


def group_within_limits(
    group: WaitingGroup, quotas: BatchAdmission, ask: Callable[[Sequence[WaitingDemand]], Answered]
) -> Answered:
    """Return what a group gets. Raises OverLimit where the limits leave too little, and what `ask` does."""
    demands = group.demands
    written: GroupWithin | None = None
    """What the limits leave of what it gets as it is written."""
    for _ in range(TRIES):
        answer = yield from ask(demands)
        if not isinstance(answer, GangServed):
            if written is None or answer is None:
                return answer
            break
        yield from quotas.read(demands, answer.decisions)
        found = quotas.group_within(demands, answer.decisions)
        written, demands = written or found, found.less
        if not demands:
            if _pods(group, found) >= max(group.enough, _pods(group, written)):
                return GangServed(found.decisions)
            break
    if written is None or _pods(group, written) < group.enough:
        raise OverLimit(written.excess if written is not None else None, demands)
    answer = yield from ask(group.demands)
    if not isinstance(answer, GangServed):
        return answer
    yield from quotas.read(group.demands, answer.decisions)
    found = quotas.group_within(group.demands, answer.decisions)
    if _pods(group, found) < group.enough:
        raise OverLimit(found.excess)
    return GangServed(found.decisions)


def _pods(group: WaitingGroup, found: GroupWithin) -> int:
    """Return how many pods are served."""
    rows = zip(group.pods_by_demand, found.decisions, strict=True)
    return sum(pods for (_, pods), decision in rows if decision is not None)
