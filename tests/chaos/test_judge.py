from dataclasses import replace
from typing import Any

import pytest

from testbed.chaos import judge
from testbed.chaos.ground import Cut
from testbed.chaos.judge import DOUBLED, KILLED, LEAKED, Container, Injection, Sight


def _partition(**status: Any) -> dict[str, Any]:
    spec = {
        "parent": "gpu-0",
        "profile": "1g.10gb",
        "placement": {"start": 3, "size": 1},
        "holder": {"uid": "c"},
    }
    said = {"phase": "Ready", "uuid": "MIG-1", "preparedBy": ["c"], **status}
    return {"metadata": {"name": "p"}, "spec": spec, "status": said}


CUT = Cut("gpu-0", "1g.10gb", 3, 1, "MIG-1")
CONTAINER = Container("c", "gpu-0-mig-1g10gb-19-3", "gpu-0", "MIG-1")
RIGHT = Sight(
    cuts=(CUT, Cut("gpu-1", "1g.5gb", 6, 1, "MIG-hand")),
    whole=frozenset(),
    cards={"gpu-0": "GPU-0", "gpu-1": "GPU-1"},
    injections=(Injection("c.json", "c", frozenset({"MIG-1"})),),
    litter=(),
    containers=(CONTAINER,),
    strangers=frozenset({"MIG-hand"}),
    partitions=(_partition(),),
)
WHOLE = Container("w", "gpu-0", "gpu-0", "GPU-0")


def test_what_is_right_is_called_right() -> None:
    """Otherwise every run would fail."""
    assert not [*judge.now(RIGHT), *judge.at_rest(RIGHT)]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param(KILLED, {"cuts": RIGHT.cuts[1:]}, id="the container's partition is gone"),
        pytest.param(
            KILLED, {"cuts": (replace(CUT, uuid="MIG-2"), RIGHT.cuts[1])}, id="it was made a second time"
        ),
        pytest.param(KILLED, {"cuts": (CUT,)}, id="a person's partition is gone"),
        pytest.param(KILLED, {"containers": (WHOLE,)}, id="a card in use as a whole was cut"),
        pytest.param(
            DOUBLED,
            {"containers": (CONTAINER, replace(CONTAINER, claim="d"))},
            id="two containers, one partition",
        ),
        pytest.param(DOUBLED, {"containers": (CONTAINER, WHOLE)}, id="a card and a part of it"),
        pytest.param(
            DOUBLED,
            {"injections": (*RIGHT.injections, Injection("d.json", "d", frozenset({"MIG-1"})))},
            id="two CDI files name one partition",
        ),
        pytest.param(
            DOUBLED, {"cuts": (*RIGHT.cuts, Cut("gpu-0", "2g.20gb", 2, 2, "MIG-3"))}, id="partitions overlap"
        ),
    ],
)
def test_what_must_never_be_is_seen_at_once(kind: str, changes: dict[str, Any]) -> None:
    assert kind in {verdict.kind for verdict in judge.now(replace(RIGHT, **changes))}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"partitions": ()}, id="nobody owns what is cut"),
        pytest.param({"cuts": (replace(CUT, uuid=""), RIGHT.cuts[1])}, id="half made"),
        pytest.param({"partitions": (_partition(phase="Pending"),)}, id="the object waits"),
        pytest.param({"partitions": (_partition(uuid="MIG-9"),)}, id="the object says another UUID"),
        pytest.param({"partitions": (_partition(preparedBy=None),)}, id="the object knows no user"),
        pytest.param({"containers": ()}, id="a CDI file without a container"),
        pytest.param({"injections": ()}, id="a container without a CDI file"),
        pytest.param({"litter": ("c.new",)}, id="an unfinished CDI file"),
        pytest.param(
            {"injections": (Injection("c.json", "c", frozenset({"MIG-9"})),)},
            id="a CDI file that names nothing",
        ),
    ],
)
def test_what_is_left_at_rest_is_seen(changes: dict[str, Any]) -> None:
    assert {verdict.kind for verdict in judge.at_rest(replace(RIGHT, **changes))} == {LEAKED}
