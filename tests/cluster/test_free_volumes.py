"""Volumes that are for nobody yet are found by what their node affinity lists, and are those that it selects."""

from random import Random

import pytest

from apportion.cluster.indexes.freevolumes import FreeVolumes
from apportion.dra.node import Node
from apportion.dra.selection import NAME_FIELD, NodeSelector, Requirement, Term
from apportion.dra.volume import PersistentVolume


def row(rng: Random, key: str, values: str) -> Requirement:
    return Requirement(
        key, rng.choice(("In", "In", "NotIn", "Exists")), tuple(rng.choices(values, k=rng.randint(0, 2)))
    )


def selector(rng: Random) -> NodeSelector | None:
    """Return node affinity of any form."""
    if rng.random() < 0.1:
        return None
    terms = [
        Term(
            tuple(row(rng, rng.choice(("zone", "host")), "ab") for _ in range(rng.randint(0, 2))),
            tuple(row(rng, rng.choice((NAME_FIELD, "other")), "nm") for _ in range(rng.randint(0, 1))),
        )
        for _ in range(rng.randint(0, 3))
    ]
    return NodeSelector(tuple(terms))


@pytest.mark.parametrize("seed", range(20))
def test_those_that_a_node_may_use_are_found_in_their_order(seed: int) -> None:
    """Each once, however many of its terms select the node."""
    rng = Random(seed)  # noqa: S311 - a test that can be repeated
    volumes = [PersistentVolume(f"v{number}", nodes=selector(rng)) for number in range(30)]
    found = FreeVolumes(volumes)
    for name in "nmx":
        for labels in ({}, {"zone": "a"}, {"zone": "b", "host": "a", NAME_FIELD: "n"}):
            expected = [each for each in volumes if each.nodes is None or each.nodes.matches(name, labels)]
            assert [*found.on(Node(name, "", labels=labels))] == expected
