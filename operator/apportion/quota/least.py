"""least(): what claims take of a quota's resources at least, and which of their alternatives the limits leave.

In: claims as they are written. Out: bounds that no choice of devices falls below. Whether a choice stays within the limits
is known only when the devices are chosen.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace

from apportion.dra.claim import Claim, Request, RequestSlot
from apportion.quota.use import Amounts, Excess, QuotaUse


def least(claims: Sequence[Claim], use: QuotaUse, *, shares: bool) -> Sequence[int]:
    """Return what the claims take of each resource at least, each slot with the alternative that takes least of it.

    `shares`: some devices give shares, so that a request may take less than a device.
    """
    if len(claims) == 1:
        return use.bounds.of(claims[0], shares=shares).least
    rows = [use.bounds.of(claim, shares=shares).least for claim in claims]
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * len(use.resources)


def possible(
    claims: tuple[Claim, ...], use: QuotaUse, *, shares: bool
) -> Generator[None, None, tuple[Claim, ...] | Excess]:
    """Return the claims without the alternatives that exceed a limit whatever devices they get, or the limit that all exceed.

    The same claims are returned where nothing is to be left out. Yields before each claim whose requests are looked at.
    """
    yield from use.bounds.steps(claims, shares=shares)
    total = least(claims, use, shares=shares)
    excess = use.excess(total)
    if excess is not None:
        return excess
    found: list[Claim] = []
    for claim in claims:
        others = use.bounds.of(claim, shares=shares).most_more
        if (
            use.excess([amount + more if more else 0 for amount, more in zip(total, others, strict=True)])
            is None
        ):
            found.append(claim)
            continue
        yield
        slots = []
        for slot in claim.slots:
            kept, over = _kept(slot, use, total, shares=shares)
            excess = excess or over
            if not kept and excess is not None:
                return excess
            slots.append(slot if len(kept) == len(slot.alternatives) else replace(slot, alternatives=kept))
        same = all(mine is theirs for mine, theirs in zip(slots, claim.slots, strict=True))
        found.append(claim if same else replace(claim, slots=tuple(slots)))
    same = all(mine is theirs for mine, theirs in zip(found, claims, strict=True))
    return claims if same else tuple(found)


def _kept(
    slot: RequestSlot, use: QuotaUse, total: Amounts, *, shares: bool
) -> tuple[tuple[Request, ...], Excess | None]:
    """Return the alternatives within the limits, where all others take the least, and the first limit that another one exceeds."""
    rows = use.bounds.rows(slot, shares=shares)
    others = [amount - min(column) for amount, column in zip(total, zip(*rows, strict=True), strict=True)]
    kept, excess = [], None
    for request, row in zip(slot.alternatives, rows, strict=True):
        over = use.excess([other + own if own else 0 for other, own in zip(others, row, strict=True)])
        if over is None:
            kept.append(request)
        excess = excess or over
    return tuple(kept), excess
