"""What gates open now."""

from apportion.api.partition import Phase
from apportion.dra.pod import Pod
from apportion.scheduling.gates import Gates


def opened(gates: Gates) -> list[Pod]:
    """Return the pods whose gate can be removed, where no device is contested and every partition is cut."""
    steps = gates.open(contested=frozenset(), phase=lambda _: Phase.READY)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Pod] = end.value
            return found
