"""unresolved(): names in an AllocationPolicy that are those of nothing that the cluster has now.

In: a policy's spec, the snapshot. Out: sentences that name the field, with what was probably meant.
"""

from collections.abc import Collection, Iterator
from itertools import islice

from apportion.api.ladder import LadderRung
from apportion.api.meant import meant
from apportion.api.policy import AllocationPolicySpec
from apportion.api.unresolved import Unresolved, not_published, unknown_class
from apportion.cluster.snapshot import Snapshot
from apportion.partitions.sharednodes import alike

_NODES_READ = 64
"""Nodes whose labels are looked at for one that was probably meant."""


def unresolved(spec: AllocationPolicySpec, snapshot: Snapshot) -> Iterator[Unresolved]:
    """Yield the names that stand for nothing, in the order of the fields."""
    known = snapshot.managed.known
    for index, name in enumerate(spec.device_classes.names):
        if name not in known:
            yield unknown_class(f"spec.deviceClasses.names[{index}]", name, known)
    if spec.device_classes.selector is not None and not any(
        spec.device_classes.selector.matches(each.labels) for each in snapshot.classes.values()
    ):
        yield Unresolved("UnknownClass", "spec.deviceClasses.selector: it selects no DeviceClass")
    names = snapshot.devices.names
    for index, rung in enumerate(spec.ladder or ()):
        yield from _rung(rung, f"spec.ladder[{index}]", names.drivers, names.attributes)
    yield from _labels(spec, snapshot)
    asked = [
        (f"spec.demand.profiles[{at}]", each.profile) for at, each in enumerate(spec.demand.profiles)
    ] + [(f"spec.partitions.warm[{at}]", each.profile) for at, each in enumerate(spec.partitions.warm)]
    for field, profile in asked:
        if profile not in names.profiles:
            yield not_published(f"{field}.profile", "profile", profile, names.profiles)
    kinds = [
        labels for labels, _ in alike([each.node_selector for each in spec.sharing], snapshot.nodes.values())
    ]
    for index, entry in enumerate(spec.sharing):
        if not any(map(entry.node_selector.matches, kinds)):
            yield Unresolved("NoNodes", f"spec.sharing[{index}].nodeSelector: it selects no node")


def _rung(
    rung: LadderRung, field: str, drivers: Collection[str], attributes: Collection[str]
) -> Iterator[Unresolved]:
    # A policy may be for more kinds of cards than there are, so a driver that is not there is only named where another one was probably meant.
    named = [(f"{field}.drivers[{at}]", each) for at, each in enumerate(rung.drivers)]
    named += [(f"{field}.perDriver[{at}].driver", each.driver) for at, each in enumerate(rung.per_driver)]
    for at, driver in named:
        if driver not in drivers and meant(driver, drivers):
            yield not_published(at, "driver", driver, drivers)
    compared = [(f"{field}.attribute", rung.attribute)] + [
        (f"{field}.perDriver[{at}].attribute", each.attribute)
        for at, each in enumerate(rung.per_driver)
        if each.driver in drivers
    ]
    for at, name in compared:
        if name not in attributes:
            yield not_published(at, "attribute", name, attributes)


def _labels(spec: AllocationPolicySpec, snapshot: Snapshot) -> Iterator[Unresolved]:
    nodes = snapshot.nodes
    for index, rung in enumerate(spec.group_ladder):
        label = rung.node_label
        if not any(label in node.labels for node in nodes.values()):
            known = {key for node in islice(nodes.values(), _NODES_READ) for key in node.labels}
            yield Unresolved(
                "NoNodes",
                f"spec.groupLadder[{index}].nodeLabel: no node has the label {label}{meant(label, known)}",
            )
