"""Which drivers an agent serves: those that have or may have cards on its node, and those by which a claim is prepared.

In: the drivers that it knows by kind of card, the kinds that the node has or awaits, the journal's claims. Out: drivers by kind. The
second may have no cards now, or be configured no more: kubelet unprepares their claims all the same.
"""

from collections.abc import Collection, Iterable, Mapping

from apportion.agent.rows import ClaimRow


def drivers_to_serve(
    drivers: Mapping[str, str], kinds: Collection[str], claims: Iterable[ClaimRow]
) -> dict[str, str]:
    """Return the drivers by kind; the name of one that is not known any more stands for its kind, which no card has."""
    held = {row.driver for row in claims}
    served = {kind: driver for kind, driver in drivers.items() if kind in kinds or driver in held}
    return served | {driver: driver for driver in sorted(held - {*served.values()})}
