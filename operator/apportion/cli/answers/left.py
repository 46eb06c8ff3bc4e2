"""left_of(): what is left of each kind of device in a cluster, and what would be if nothing was held beside allocations.

In: a snapshot, its DeviceHolds. Out: by kind of device, sorted, what `largest` finds. What is held is not left: it is counted by itself, because nobody but those for
whom it is held may get it now.
"""

from apportion.cli.answers.largest import DeviceKind, Left, largest
from apportion.cli.world.holds import Holds
from apportion.cluster.snapshot import Snapshot


def left_of(snapshot: Snapshot, holds: Holds) -> dict[DeviceKind, Left]:
    """Return how many devices of each kind are left; those of cordoned nodes are not."""
    cordoned = {node.name for node in snapshot.nodes.values() if node.unschedulable}
    found = dict(sorted(largest(snapshot.state, cordoned).items()))
    if holds.found:
        with holds.lifted(holds.found.values()):
            without = largest(snapshot.state, cordoned)
        for kind, left in found.items():
            left.held = max(0, without[kind].left - left.left)
    return found
