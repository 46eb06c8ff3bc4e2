"""remains(): the part of an unreadable object that still counts, as of an object of a newer release after a rollback.

In: the raw object, its last readable value. Out: a value by which a claim's devices stay taken, a policy's classes stay
shut and a quota's limits hold, or None: the object is left out. No decision is made about an unreadable object, and nothing is written to it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from apportion.api.model import Model
from apportion.api.policy import AllocationPolicy
from apportion.api.quota import AcceleratorQuota, QuotaResource
from apportion.api.selector import LabelRequirement, LabelSelector
from apportion.cluster import kinds
from apportion.cluster.kinds import ResourceKind
from apportion.dra import reading
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.claim import Claim, Consumer
from apportion.dra.device import DeviceId
from apportion.dra.reading import Json
from apportion.dra.selection import NodeSelector
from apportion.dra.slice import Slice
from apportion.errors import BrokenInput

_Model = TypeVar("_Model", bound=Model)
LEFT_OUT: Final = frozenset((kinds.NODES, kinds.CLASSES))
"""Kinds of which nothing is kept: they offer something, and what cannot be read offers nothing."""


def remains(kind: ResourceKind, raw: Json, last: Any) -> Any:
    """Return what counts of an unreadable object; `last` is what counted before, None: nothing did."""
    if kind in LEFT_OUT:
        return None
    if kind == kinds.SLICES:
        return _slice(raw)
    if kind == kinds.CLAIMS:
        return _claim(raw, last)
    if kind == kinds.POLICIES and last is None:
        return _policy(raw)
    if kind == kinds.QUOTAS and last is None:
        return _quota(raw)
    return last


def _slice(raw: Json) -> Slice | None:
    """Return a slice that offers nothing, by which its pool is incomplete, so that nobody takes what is left for all; None where its pool or its nodes are not known."""
    try:
        return Slice.without_devices(raw)
    except BrokenInput:
        return None


def _claim(raw: Json, last: Claim | None) -> Claim:
    """Return a claim that has devices and consumers, and asks for nothing, so that nobody decides about it; its quota counts the devices by class."""
    metadata = raw["metadata"]
    status = _table(raw.get("status"))
    return Claim(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata["name"]),
        uid=metadata["uid"],
        version=str(metadata.get("resourceVersion") or ""),
        allocation=_allocation(status.get("allocation"), last.allocation if last is not None else None),
        reserved_for=tuple(
            Consumer(
                resource=str(row.get("resource")),
                name=str(row.get("name")),
                uid=str(row.get("uid")),
                api_group=str(row.get("apiGroup") or ""),
            )
            for row in _rows(status.get("reservedFor"))
        ),
        finalizers=last.finalizers if last is not None else (),
        deleting=metadata.get("deletionTimestamp") is not None,
        created=str(metadata.get("creationTimestamp") or ""),
        unread_requests=tuple(_requests(_table(raw.get("spec")))),
    )


def _requests(spec: Json) -> Iterator[tuple[str, str]]:
    """Yield the requests of a claim, as results name them, each with its DeviceClass."""
    for row in _rows(_table(spec.get("devices")).get("requests")):
        yield str(row.get("name")), str(_table(row.get("exactly")).get("deviceClassName"))
        for one in _rows(row.get("firstAvailable")):
            yield f"{row.get('name')}/{one.get('name')}", str(one.get("deviceClassName"))


def _allocation(raw: Any, last: Allocation | None) -> Allocation | None:
    """Return the allocation as far as it can be read, and the devices of the last readable one if a row cannot be."""
    if raw is None:
        return None
    try:
        return Allocation.from_json(_table(raw))
    except BrokenInput:
        pass
    read = [_result(row) for row in _rows(_table(_table(raw).get("devices")).get("results"))]
    found = [result for result in read if result is not None]
    if last is not None and (len(found) < len(read) or not read):
        found += [result for result in last.results if result.device not in {each.device for each in found}]
    return Allocation(tuple(found), node_selector=last.node_selector if last is not None else _place(raw))


def _result(row: Json) -> DeviceResult | None:
    """Return an allocated device, the whole of it where more than its name cannot be read; None without a name."""
    try:
        return DeviceResult.from_json(row)
    except BrokenInput:
        pass
    try:
        device = DeviceId(*(reading.text(row, part) for part in ("driver", "pool", "device")))
    except BrokenInput:
        return None
    return DeviceResult(str(row.get("request")), device)


def _place(raw: Any) -> NodeSelector | None:
    try:
        return NodeSelector.from_json(_table(_table(raw).get("nodeSelector")), "nodeSelector")
    except BrokenInput:
        return None


def _policy(raw: Json) -> AllocationPolicy | None:
    return _of_fields(AllocationPolicy, raw, _table(raw.get("spec")), "deviceClasses")


def _quota(raw: Json) -> AcceleratorQuota | None:
    """Return a quota with those of its resources that can be read: without it nothing would limit its namespaces.

    Of a selector of which only some conditions can be read these select, which may be too many namespaces: as if nobody knew when it was
    made, the quota then comes after every other one that selects them.
    """
    written = dict(_table(raw.get("spec")))
    written["resources"] = [row for row in _rows(written.get("resources")) if _reads(QuotaResource, row)]
    selector = written.get("namespaceSelector")
    if not _reads(LabelSelector, selector) and (conditions := _conditions(_table(selector))):
        written["namespaceSelector"] = conditions
        raw = {"metadata": {**raw["metadata"], "creationTimestamp": None}}
    return _of_fields(AcceleratorQuota, raw, written, "namespaceSelector", "resources")


def _conditions(selector: Json) -> Json:
    """Return those conditions of a selector that can be read; empty: none."""
    labels = {
        name: value
        for name, value in _table(selector.get("matchLabels")).items()
        if _reads(LabelSelector, {"matchLabels": {name: value}})
    }
    expressions = [row for row in _rows(selector.get("matchExpressions")) if _reads(LabelRequirement, row)]
    found = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: value for name, value in found.items() if value}


def _reads(model: type[Model], raw: Any) -> bool:
    try:
        model.from_json(raw)
    except BrokenInput:
        return False
    return True


def _of_fields(model: type[_Model], raw: Json, written: Json, *needed: str) -> _Model | None:
    """Return an object with those fields of its spec that can be read, and the defaults of the others; None without those that it needs."""
    found: _Model | None = None
    spec: dict[str, Any] = {}
    for names in (needed, *((name,) for name in written)):
        tried = {"metadata": raw["metadata"], "spec": spec | {name: written.get(name) for name in names}}
        try:
            found = model.from_json(tried)
        except BrokenInput:
            continue
        spec = tried["spec"]
    return found


def _table(raw: Any) -> Json:
    return raw if isinstance(raw, Mapping) else {}


def _rows(raw: Any) -> list[Json]:
    return [_table(row) for row in raw] if isinstance(raw, list) else []
