"""Allocations from picks: devices, config, node selector (API `AllocationResult`).

In: the picks on one node. Out: one Allocation per claim, as kube-scheduler would write it, without a timestamp.
"""

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.capacity import charge
from apportion.allocator.rules.query import NamedQuery, RequestNames
from apportion.allocator.search.search import Pick
from apportion.dra.allocation import Allocation, ConfigResult, DeviceResult
from apportion.dra.claim import Claim, Request
from apportion.dra.device import DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.selection import Availability, NodeSelector, Requirement, Term
from apportion.errors import BrokenInput, TooMuch

MOST_CONFIGS = 64
"""Entries of an allocation's config (API `AllocationResult.devices.config`)."""

ShareIds = Callable[[Claim, str, DeviceId], str]
"""Makes the share ID of a claim's share, given the request's name and the device."""


def derived_share_ids(seed: str) -> ShareIds:
    """Return share IDs derived from seed, claim, request and device: equal calls give equal IDs."""

    def make(claim: Claim, request: str, device: DeviceId) -> str:
        text = "\0".join((seed, claim.uid, claim.key, request, str(device)))
        return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))

    return make


def allocations(
    view: NodeView, named: NamedQuery, picks: Sequence[Pick], share_ids: ShareIds
) -> tuple[Allocation, ...]:
    """Return one allocation per claim; raises BrokenInput for a slice whose node selector has several terms."""
    configured = named.query.configured
    chosen: dict[int, int] | None = None
    made = []
    for number, claim in enumerate(named.names.claims):
        own = (
            [pick for pick in picks if named.query.slots[pick.slot].claim == number]
            if len(named.names.claims) > 1
            else picks
        )
        if chosen is None and (claim.config or configured):
            chosen = {pick.slot: pick.alternative for pick in picks}
        made.append(
            Allocation(
                _results(view, named, own, share_ids),
                _config(number, claim, named, chosen) if chosen is not None else (),
                view.local
                if view.all_node_local and own
                else _node_selector(view, [pick.device for pick in own]),
            )
        )
    return tuple(made)


def _results(
    view: NodeView, named: NamedQuery, picks: Sequence[Pick], share_ids: ShareIds
) -> tuple[DeviceResult, ...]:
    results: list[DeviceResult] = []
    names = named.names
    last: Pick | None = None
    request: Request
    label, plain = "", False
    binds = view.features.device_binding_and_status
    kept = view.results
    for pick in picks:
        index = pick.device
        if last is None or pick.slot != last.slot or pick.alternative != last.alternative:
            last = pick
            request = names.request(pick.slot, pick.alternative)
            label = names.label(pick.slot, pick.alternative)
            plain = not (request.admin_access or request.tolerations_as_written)
        shared = view.shareable >> index & 1
        found = kept.get((index, label)) if plain and not shared else None
        if found is not None:
            results.append(found)
            continue
        device = view.devices[index]
        where = view.id_of(index)
        share_id, consumed = None, _NOTHING
        if shared:
            # Claims with equal amounts share a query; the formats are those of the claim's own request.
            consumed = charge(request.capacity, device, view.features) or _NOTHING
            share_id = share_ids(names.slots[pick.slot][0], label, where)
        made = DeviceResult(
            label,
            where,
            request.admin_access,
            request.tolerations_as_written,
            share_id,
            consumed,
            device.binding_conditions if binds else (),
            device.binding_failure_conditions if binds else (),
            view.piece_of(index).skip_node_operations,
        )
        if plain and not shared:
            kept[index, label] = made
        results.append(made)
    return tuple(results)


_NOTHING: Mapping[str, Quantity] = {}


def _config(
    number: int, claim: Claim, named: NamedQuery, chosen: Mapping[int, int]
) -> tuple[ConfigResult, ...]:
    """Return the configs of each class with the requests that use it, then those of the claim that apply."""
    names = named.names
    own = [slot for slot in range(len(named.query.slots)) if named.query.slots[slot].claim == number]
    users: dict[str, list[str]] = {}
    for slot in own:
        alternative = chosen.get(slot, 0)
        users.setdefault(names.request(slot, alternative).device_class, []).append(
            names.label(slot, alternative)
        )
    entries = [
        ConfigResult("FromClass", tuple(requests), config.opaque)
        for title, requests in users.items()
        for config in names.classes[title].config
    ]
    selected = {
        title for slot in own for title in (names.slots[slot][1].name, names.label(slot, chosen.get(slot, 0)))
    }
    entries += [
        ConfigResult("FromClaim", config.requests, config.opaque)
        for config in claim.config
        if not config.requests or selected.intersection(config.requests)
    ]
    if len(entries) > MOST_CONFIGS:
        raise TooMuch(
            f"claim {claim.key}: {len(entries)} configurations of claim and classes exceed the limit of {MOST_CONFIGS}"
        )
    return tuple(
        ConfigResult(entry.source, (), entry.opaque) if _covers_all(entry, own, names, chosen) else entry
        for entry in entries
    )


def _covers_all(
    entry: ConfigResult, slots: Sequence[int], names: RequestNames, chosen: Mapping[int, int]
) -> bool:
    return all(
        names.slots[slot][1].name in entry.requests
        or names.label(slot, chosen.get(slot, 0)) in entry.requests
        for slot in slots
    )


def _node_selector(view: NodeView, devices: Sequence[int]) -> NodeSelector | None:
    """Return the node itself if some device is local to it; else the devices' node selectors combined into one term."""
    labels: dict[tuple[str, str, frozenset[str]], Requirement] = {}
    fields: dict[tuple[str, str, frozenset[str]], Requirement] = {}
    for index in devices:
        device = view.devices[index]
        place = view.piece_of(index).availability
        if place.per_device:
            place = device.availability or Availability()
        if place.node is not None or device.binds_to_node:
            return view.local
        terms = place.selector.terms if place.selector else ()
        if len(terms) > 1:
            raise BrokenInput(
                f"device {device.id}: a node selector of a slice may have one term, this has {len(terms)}"
            )
        for term in terms:
            for requirements, found in ((term.labels, labels), (term.fields, fields)):
                for requirement in requirements:
                    key = requirement.key, requirement.operator, frozenset(requirement.values)
                    found.setdefault(key, requirement)
    if not labels and not fields:
        return None
    return NodeSelector((Term(tuple(labels.values()), tuple(fields.values())),))
