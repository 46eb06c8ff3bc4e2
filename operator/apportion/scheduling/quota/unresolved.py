"""unresolved(): names in an AcceleratorQuota that are those of nothing that the cluster has now.

In: the use of a quota, what the cluster has of its resources, the snapshot. Out: sentences that name the field, with what was probably meant.
"""

from collections.abc import Collection, Iterator

from apportion.api.unresolved import Unresolved, not_published, unknown_class
from apportion.cluster.snapshot import Snapshot
from apportion.quota.resource import Resource
from apportion.quota.totals import Totals
from apportion.quota.use import QuotaUse


def unresolved(use: QuotaUse, totals: Totals, snapshot: Snapshot) -> Iterator[Unresolved]:
    """Yield the names that stand for nothing, in the order of the fields."""
    contested = snapshot.quota_index.assignment.contested.values()
    if not use.namespaces and not any(use.name in names for names in contested):
        yield Unresolved("NoNamespaces", "spec.namespaceSelector: it selects no namespace")
    for index, resource in enumerate(use.resources):
        at = f"spec.resources[{index}]"
        missing = [*_of_resource(resource, at, snapshot)]
        yield from missing
        if not missing and not totals.of(resource.selection):
            yield from _together(resource, at)


def _of_resource(resource: Resource, at: str, snapshot: Snapshot) -> Iterator[Unresolved]:
    classes, names = snapshot.managed.known, snapshot.devices.names
    if resource.device_class and resource.device_class not in classes:
        yield unknown_class(f"{at}.deviceClass", resource.device_class, classes)
    rows: tuple[tuple[str, str, Collection[str]], ...] = (
        ("profile", resource.profile, names.profiles),
        ("model", resource.model, names.models),
        ("capacity", resource.capacity, _amounts(resource.capacity, names.amounts)),
    )
    for what, name, known in rows:
        if name and name not in known:
            yield not_published(f"{at}.{what}", what, name, known)


def _amounts(asked: str, known: Collection[str]) -> Collection[str]:
    """Return the names of amounts that one may be: a name without a driver means that of every driver."""
    return known if "/" in asked or not asked else {name.rpartition("/")[2] for name in known}


def _together(resource: Resource, at: str) -> Iterator[Unresolved]:
    """Yield a sentence about names of which each is that of some device, but not all are of one."""
    rows = (
        ("profile", resource.profile),
        ("model", resource.model),
        ("capacity", resource.capacity),
    )
    asked = " and ".join(f"{what} {name}" for what, name in rows if name)
    if asked:
        of = f" of DeviceClass {resource.device_class}" if resource.device_class else ""
        yield Unresolved("NotPublished", f"{at}: no node offers a device{of} with {asked}")
