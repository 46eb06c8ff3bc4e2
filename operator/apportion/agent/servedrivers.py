"""Which drivers an agent serves: those that have or may have cards on its node, those by which a claim is prepared, and those served before.

In: the drivers that it knows by kind of card, the kinds that the node has or awaits, the journal's claims, the folder of kubelet's plugins. Out:
drivers by kind. Those served before, or by which a claim is prepared, may have no cards now, and the latter be configured no more: kubelet
unprepares their claims all the same, once more where an answer was lost, and a pod ends only when it has the answer.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from apportion.agent.devices.values import CardKind
from apportion.agent.rows import ClaimRow


def drivers_to_serve(
    drivers: Mapping[str, str], kinds: Collection[str], claims: Iterable[ClaimRow], plugins: Path
) -> dict[str, str]:
    """Return the drivers by kind; the name of one that is not known any more stands for its kind, which no card has."""
    held = {row.driver for row in claims}
    served = {
        kind: driver
        for kind, driver in drivers.items()
        if kind in kinds or driver in held or (plugins / driver).is_dir()
    }
    return served | {driver: driver for driver in sorted(held - {*served.values()})}


def needs_a_start(kind: str, known: Collection[str], served: Mapping[str, str]) -> bool:
    """Say whether an agent has to start anew for a card of a kind that it did not know of: nobody serves its driver, or joins its pods' networks.

    Where the driver is served all the same, a start would only ask a card anew that takes long to answer, again and again.
    """
    return kind not in known and (kind == CardKind.NIC or kind not in served)
