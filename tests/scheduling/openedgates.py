"""What gates open now."""

from apportion.allocator.finished import finished
from apportion.api.partition import Phase
from apportion.dra.pod import Pod
from apportion.scheduling.writing.gates import Gates


def opened(gates: Gates) -> list[Pod]:
    """Return the pods whose gate can be removed, where no device is contested and every partition is cut."""
    return finished(gates.open(contested=frozenset(), phase=lambda _: Phase.READY))
