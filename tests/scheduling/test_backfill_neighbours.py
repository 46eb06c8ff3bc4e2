"""Devices are reserved where a pod that runs has the host port of the head, or is shunned by it, for the moment at which it ends."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import Json
from tests.scheduling.reserving import Reserving

HOST = "kubernetes.io/hostname"


def port(number: int) -> Json:
    return {"containers": [{"name": "main", "ports": [{"containerPort": number, "hostPort": number}]}]}


async def test_the_port_of_a_pod_that_ends_is_waited_for(unanswered: Client) -> None:
    """The devices of a pod that ends before would do, but for the port; without a reservation smaller pods came first for ever."""
    made = Reserving(unanswered, {"n1": 4})
    made.starts("with-port", 2, runtime="1h", spec=port(80))
    made.starts("without", 2, runtime="30m")
    made.comes("head", 2, spec=port(80))
    made.comes("other", 2, spec=port(81))
    made.passes(0.0)
    assert made.reserved == {"head": (["n1"], 3600), "other": (["n1"], 1800)}
    made.ends("without")
    assert made.passes(0.0) == ["other"]
    made.ends("with-port")
    assert made.passes(0.0) == ["head"]


async def test_nothing_is_reserved_where_a_pod_without_devices_has_the_port(unanswered: Client) -> None:
    """Nobody knows that it ends."""
    made = Reserving(unanswered, {"n1": 2})
    made.starts("old", 2, runtime="1h")
    made.world.pod("daemon", spec={"nodeName": "n1", **port(80)})
    made.comes("head", 2, spec=port(80))
    made.passes()
    assert made.reserved == {}


@pytest.mark.parametrize("key", [HOST, "zone"])
async def test_the_end_of_a_pod_that_is_shunned_is_waited_for(key: str, unanswered: Client) -> None:
    """Where another one of the zone stays nothing is reserved."""
    made = Reserving(unanswered, {"n1": 2, "n2": 0})
    for name in ("n1", "n2"):
        made.world.node(name, cpu="64", **{HOST: name, "zone": "a"})
    made.starts("old", 2, runtime="1h")
    own = {"topologyKey": key, "labelSelector": {}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [own]}
    made.world.pod("daemon", spec={"nodeName": "n2"})
    made.comes("head", 2, spec={"affinity": {"podAntiAffinity": required}})
    made.passes(0.0)
    assert made.reserved == ({"head": (["n1"], 3600)} if key == HOST else {})
