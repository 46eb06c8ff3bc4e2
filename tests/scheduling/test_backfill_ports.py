"""The host port that the first of the queue needs on its node is kept for it, as cpu and memory are."""

from apportion.cluster.client import Client
from tests.observedcluster import Json
from tests.scheduling.reserving import DEVICES, Reserving, on


def port(number: int, address: str = "") -> Json:
    taken = {"containerPort": number, "hostPort": number, "hostIP": address}
    return {"containers": [{"name": "main", "ports": [taken]}]}


def _reserved(client: Client) -> Reserving:
    """Return a node of which half of the devices are in use; six are reserved for a pod with a host port, and two are nobody's."""
    made = Reserving(client, {"n1": DEVICES})
    made.starts("old", DEVICES // 2, runtime="1h")
    made.comes("large", 6, spec=port(80))
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3600)}
    return made


async def test_a_younger_pod_leaves_the_port_that_the_first_of_the_queue_needs(unanswered: Client) -> None:
    """Of younger pods with this port there was always one when enough devices had come free."""
    made = _reserved(unanswered)
    made.comes("a-same-port", spec=port(80, "127.0.0.1"))
    made.comes("other-port", spec=port(81))
    assert made.passes(0.0) == ["other-port"]
    made.ends("old")
    assert made.passes() == ["large"]


async def test_a_pod_that_ends_before_uses_the_port(unanswered: Client) -> None:
    """As the cpu that is kept."""
    made = _reserved(unanswered)
    made.comes("long", spec=port(80), runtime="2h")
    made.comes("short", spec=port(80), runtime="30m")
    assert made.passes(0.0) == ["short"]


async def test_so_does_one_of_higher_priority(unanswered: Client) -> None:
    made = _reserved(unanswered)
    made.comes("urgent", spec=port(80), priority=1)
    assert made.passes(0.0) == ["urgent"]


async def test_it_is_free_once_the_first_of_the_queue_is_gone(unanswered: Client) -> None:
    made = _reserved(unanswered)
    made.comes("same-port", spec=port(80))
    assert made.passes(0.0) == []
    made.ends("large")
    assert made.passes(0.0) == ["same-port"]


async def test_nothing_is_reserved_for_the_next_one_where_the_port_is_kept(unanswered: Client) -> None:
    """Both would wait for one node, of which only one can have the port; the second waits for another one."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES})
    made.starts("on-n1", DEVICES, runtime="1h", spec={"affinity": on("n1")})
    made.starts("on-n2", DEVICES, runtime="2h", spec={"affinity": on("n2")})
    for name in ("first", "second"):
        made.comes(name, 2, spec=port(80))
        made.passes(0.0)
    assert made.reserved == {"first": (["n1"], 3600), "second": (["n2"], 7200)}


async def test_a_group_gets_the_ports_that_are_kept_for_it(unanswered: Client) -> None:
    """On both nodes, and others do not."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES})
    for node in ("n1", "n2"):
        made.starts(f"on-{node}", 4, spec={"affinity": on(node)})
    for number in range(2):
        made.comes(f"worker-{number}", 6, group=("training", 2), spec=port(80))
    made.passes(0.0)
    assert made.reserved == {"training": (["n1", "n2"], None)}
    made.comes("same-port", spec=port(80))
    assert made.passes(0.0) == []
    made.ends("on-n1", "on-n2")
    assert made.passes() == ["worker-0", "worker-1"]
