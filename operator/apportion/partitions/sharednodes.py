"""What of a policy's `spec.sharing` has no effect, and why: as its condition says it.

In: a policy, all policies, the nodes. Out: sentences that name the field. The agents decide by the same rule: of the policies with
an entry that selects a node the oldest counts, and of its entries the first.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from apportion.api.policy import AllocationPolicy
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
    for node in nodes:
        index = next(iter(_entries(policy, node)), None)
        winner = next((each for each in older if any(True for _ in _entries(each, node))), None)
        if index is not None and winner is not None:
            lost.setdefault((index, winner.metadata.name), []).append(node.name)
    return "; ".join(
        f"spec.sharing[{index}].nodeSelector: {_list(sorted(names))} by AllocationPolicy {name}, which is older"
        for (index, name), names in sorted(lost.items())
    )


def _entries(policy: AllocationPolicy, node: Node) -> Iterator[int]:
    for index, entry in enumerate(policy.spec.sharing):
        if entry.node_selector.matches(node.labels):
            yield index


def _age(policy: AllocationPolicy) -> tuple[datetime, str]:
    return policy.metadata.creation_timestamp or _EARLIEST, policy.metadata.name


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"GPUs of {', '.join(names[:_NAMED])}{more} are shared"
