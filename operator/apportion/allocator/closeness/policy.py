"""From what an AllocationPolicy says to a ladder."""

from functools import lru_cache

from apportion.allocator.closeness.ladder import DEFAULT, Ladder, Rung
from apportion.api.ladder import LadderRung, LadderScope, RungSplit
from apportion.api.policy import AllocationPolicySpec


def ladder_of(policy: AllocationPolicySpec) -> Ladder | None:
    """Return the ladder of a policy: the usual one where it names none, None where it wants none."""
    return _ladder(policy.ladder, policy.ladder_scope)


@lru_cache(maxsize=256)
def _ladder(rungs: tuple[LadderRung, ...] | None, scope: LadderScope) -> Ladder | None:
    across = scope is LadderScope.CLUSTER
    if rungs is None:
        return Ladder(DEFAULT.rungs, across)
    return Ladder(tuple(_rung(rung) for rung in rungs), across) if rungs else None


def _rung(rung: LadderRung) -> Rung:
    return Rung(
        attribute=rung.attribute,
        drivers=frozenset(rung.drivers),
        per_driver=tuple((own.driver, own.attribute) for own in rung.per_driver),
        fill=rung.fill is not None,
        order=tuple((row.take, row.free) for row in rung.fill.order) if rung.fill is not None else (),
        even=rung.split is RungSplit.EVEN,
    )
