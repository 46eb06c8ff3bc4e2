"""What of a policy's `spec.sharing` has no effect, and why: as its condition says it.

In: a policy, all policies, the nodes. Out: sentences that name the field. The agents decide by the same rule: of the policies with
an entry that selects a node the oldest counts, and of its entries the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from apportion.api.policy import AllocationPolicy
from apportion.api.selector import LabelSelector
from apportion.dra.node import Node

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_NAMED = 3
"""Nodes that a sentence names."""


def taken_by_older(
    policy: AllocationPolicy, policies: Iterable[AllocationPolicy], nodes: Iterable[Node]
) -> str:
    """Return which of the nodes that it selects obey an older policy, "" for none."""
    older = sorted((each for each in policies if each.spec.sharing and _age(each) < _age(policy)), key=_age)
    if not policy.spec.sharing or not older:
        return ""
    lost: dict[tuple[int, str], list[str]] = {}
    selectors = [entry.node_selector for each in (policy, *older) for entry in each.spec.sharing]
    for labels, names in alike(selectors, nodes):
        index = next(_entries(policy, labels), None)
        winner = next((each for each in older if next(_entries(each, labels), None) is not None), None)
        if index is not None and winner is not None:
            lost.setdefault((index, winner.metadata.name), []).extend(names)
    return "; ".join(
        f"spec.sharing[{index}].nodeSelector: {_list(sorted(names))} by AllocationPolicy {name}, which is older"
        for (index, name), names in sorted(lost.items())
    )


def alike(
    selectors: Sequence[LabelSelector], nodes: Iterable[Node]
) -> Iterator[tuple[Mapping[str, str], list[str]]]:
    """Yield the labels that the selectors look at, with the names of the nodes that have them: thousands of nodes are of a few kinds."""
    keys = {key for selector in selectors for key in selector.match_labels}
    keys |= {term.key for selector in selectors for term in selector.match_expressions}
    order, found = sorted(keys), dict[tuple[str | None, ...], list[str]]()
    for node in nodes:
        found.setdefault(tuple(map(node.labels.get, order)), []).append(node.name)
    for values, names in found.items():
        yield {key: value for key, value in zip(order, values, strict=True) if value is not None}, names


def _entries(policy: AllocationPolicy, labels: Mapping[str, str]) -> Iterator[int]:
    for index, entry in enumerate(policy.spec.sharing):
        if entry.node_selector.matches(labels):
            yield index


def _age(policy: AllocationPolicy) -> tuple[datetime, str]:
    return policy.metadata.creation_timestamp or _EARLIEST, policy.metadata.name


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"GPUs of {', '.join(names[:_NAMED])}{more} are shared"
