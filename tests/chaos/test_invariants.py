from dataclasses import replace
from typing import Any

import pytest

from testbed.chaos import invariants
from testbed.chaos.fakehardware import LivePartition
from testbed.chaos.invariants import (
    DOUBLED,
    KILLED,
    LEAKED,
    MISDIRECTED,
    CardSetup,
    CdiFile,
    Container,
    Observation,
    PodInterface,
)


def _partition(**status: Any) -> dict[str, Any]:
    spec = {
        "parent": "gpu-0",
        "profile": "1g.10gb",
        "placement": {"start": 3, "size": 1},
        "holder": {"uid": "c"},
    }
    whole_status = {"phase": "Ready", "uuid": "MIG-1", "preparedBy": ["c"], **status}
    return {"metadata": {"name": "p"}, "spec": spec, "status": whole_status}


LIVE = LivePartition("gpu-0", "1g.10gb", 3, 1, "MIG-1")
CONTAINER = Container("c", "gpu-0-mig-1g10gb-19-3", "gpu-0", "MIG-1")
RIGHT = Observation(
    live=(LIVE, LivePartition("gpu-1", "1g.5gb", 6, 1, "MIG-foreign")),
    whole=frozenset(),
    cards={"gpu-0": "GPU-0", "gpu-1": "GPU-1"},
    cdi_files=(CdiFile("c.json", "c", frozenset({"MIG-1"}), (("MIG-1", 0),)),),
    stray_files=(),
    containers=(CONTAINER,),
    foreign=frozenset({"MIG-foreign"}),
    objects=(_partition(),),
    minors={"MIG-1": 0, "GPU-0": 0, "GPU-1": 1},
    interface=PodInterface("", running=False, in_pod=False, on_host=True),
)
IN_POD = PodInterface("n", running=True, in_pod=True, on_host=False, left=("n.json",))
WHOLE = Container("w", "gpu-0", "gpu-0", "GPU-0")
SHARE = Container("s", "gpu-1", "gpu-1", "GPU-1", "share-1")
SHARED = replace(
    RIGHT,
    whole=frozenset({"gpu-1"}),
    containers=(CONTAINER, SHARE, replace(SHARE, claim="t", share="share-2")),
    cdi_files=(
        *RIGHT.cdi_files,
        *(CdiFile(f"{name}.json", name, frozenset({"GPU-1"}), (), frozenset({"GPU-1"})) for name in "st"),
    ),
)


WITH_MPS = Container("w", "gpu-1", "gpu-1", "GPU-1", sharing="MPS")
WITH_SLICE = replace(WITH_MPS, sharing="TimeSlicing")
MPS_SETUP = CardSetup(exclusive=True, daemons=("50.0",))


def test_a_correct_state_has_no_violation() -> None:
    """Otherwise every run would fail."""
    assert not [*invariants.always(RIGHT), *invariants.at_rest(RIGHT)]


def test_an_interface_in_the_pod_of_its_claim_is_no_violation() -> None:
    """Its claim has a CDI file, and the agent keeps files about it."""
    files = (*RIGHT.cdi_files, CdiFile("n.json", "n", frozenset()))
    right = replace(RIGHT, cdi_files=files, interface=IN_POD)
    assert not [*invariants.always(right), *invariants.at_rest(right)]


def test_a_card_that_is_set_up_as_its_claim_asks_is_no_violation() -> None:
    """A control daemon with its limits for MPS, a time slice for the other strategy."""
    for container, setup in ((WITH_MPS, MPS_SETUP), (WITH_SLICE, CardSetup(time_slice=3))):
        containers = (CONTAINER, container)
        files = (*RIGHT.cdi_files, CdiFile("w.json", "w", frozenset({"GPU-1"})))
        right = replace(
            RIGHT,
            whole=frozenset({"gpu-1"}),
            containers=containers,
            cdi_files=files,
            setups={"gpu-1": setup},
            daemon_folders=("w",) if setup.daemons else (),
        )
        assert not [*invariants.always(right), *invariants.at_rest(right)]


def test_two_shares_of_a_card_are_no_violation() -> None:
    """And the same share twice is one, in containers or in files."""
    assert not [*invariants.always(SHARED), *invariants.at_rest(SHARED)]
    twice = replace(SHARED, containers=(CONTAINER, SHARE, replace(SHARE, claim="t")))
    alone = replace(SHARED, cdi_files=tuple(replace(file, shares=frozenset()) for file in SHARED.cdi_files))
    for wrong in (twice, alone):
        assert DOUBLED in {violation.kind for violation in invariants.always(wrong)}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param(KILLED, {"live": RIGHT.live[1:]}, id="the container's partition is gone"),
        pytest.param(
            KILLED, {"live": (replace(LIVE, uuid="MIG-2"), RIGHT.live[1])}, id="it was made a second time"
        ),
        pytest.param(KILLED, {"live": (LIVE,)}, id="a foreign partition is gone"),
        pytest.param(KILLED, {"containers": (WHOLE,)}, id="a card in use as a whole was partition"),
        pytest.param(
            DOUBLED,
            {"containers": (CONTAINER, replace(CONTAINER, claim="d"))},
            id="two containers, one partition",
        ),
        pytest.param(DOUBLED, {"containers": (CONTAINER, WHOLE)}, id="a card and a part of it"),
        pytest.param(MISDIRECTED, {"minors": {"MIG-1": 1}}, id="the file of another GPU is in the container"),
        pytest.param(
            MISDIRECTED,
            {
                "containers": (CONTAINER, WITH_MPS),
                "setups": {"gpu-1": replace(MPS_SETUP, daemons=("100.0",))},
            },
            id="a control daemon without the limits of its claim",
        ),
        pytest.param(
            MISDIRECTED,
            {"containers": (CONTAINER, WITH_MPS), "setups": {"gpu-1": CardSetup(daemons=("50.0",))}},
            id="a card that programs use past their control daemon",
        ),
        pytest.param(
            MISDIRECTED,
            {"containers": (CONTAINER, WITH_SLICE), "setups": {"gpu-1": CardSetup()}},
            id="a card without the time slice of its claim",
        ),
        pytest.param(
            MISDIRECTED,
            {"interface": replace(IN_POD, in_pod=False)},
            id="a container without the interface of its claim",
        ),
        pytest.param(
            DOUBLED,
            {"cdi_files": (*RIGHT.cdi_files, CdiFile("d.json", "d", frozenset({"MIG-1"})))},
            id="two CDI files name one partition",
        ),
        pytest.param(
            DOUBLED,
            {"live": (*RIGHT.live, LivePartition("gpu-0", "2g.20gb", 2, 2, "MIG-3"))},
            id="partitions overlap",
        ),
    ],
)
def test_what_must_never_happen_is_seen_at_once(kind: str, changes: dict[str, Any]) -> None:
    assert kind in {violation.kind for violation in invariants.always(replace(RIGHT, **changes))}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"objects": ()}, id="nobody owns what is partition"),
        pytest.param({"live": (replace(LIVE, uuid=""), RIGHT.live[1])}, id="half made"),
        pytest.param({"objects": (_partition(phase="Pending"),)}, id="the object waits"),
        pytest.param({"objects": (_partition(uuid="MIG-9"),)}, id="the object says another UUID"),
        pytest.param({"objects": (_partition(preparedBy=None),)}, id="the object knows no user"),
        pytest.param({"containers": ()}, id="a CDI file without a container"),
        pytest.param({"cdi_files": ()}, id="a container without a CDI file"),
        pytest.param(
            {"interface": replace(IN_POD, claim="", running=False, left=())},
            id="an interface that is not back on the host",
        ),
        pytest.param(
            {"interface": PodInterface("", running=False, in_pod=False, on_host=True, left=("n.json",))},
            id="a file of an interface that is back",
        ),
        pytest.param({"setups": {"gpu-1": CardSetup(daemons=("50.0",))}}, id="a control daemon"),
        pytest.param({"setups": {"gpu-1": CardSetup(exclusive=True)}}, id="a compute mode"),
        pytest.param({"setups": {"gpu-1": CardSetup(time_slice=3)}}, id="a time slice"),
        pytest.param({"daemon_folders": ("w",)}, id="a folder of a control daemon"),
        pytest.param({"stray_files": ("c.new",)}, id="an unfinished CDI file"),
        pytest.param(
            {"cdi_files": (CdiFile("c.json", "c", frozenset({"MIG-9"})),)},
            id="a CDI file that names nothing",
        ),
    ],
)
def test_what_is_left_at_rest_is_seen(changes: dict[str, Any]) -> None:
    assert {violation.kind for violation in invariants.at_rest(replace(RIGHT, **changes))} == {LEAKED}
