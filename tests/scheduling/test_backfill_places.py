"""Where devices are reserved: where the pod will fit first, and where that is when something changes."""

from apportion.cluster.client import Client
from tests.observedcluster import request
from tests.scheduling.queued import MODEL
from tests.scheduling.reserving import DEVICES, Reserving, on


async def test_devices_are_reserved_where_they_become_free_first(unanswered: Client) -> None:
    """By what the pods there declare; a node of which nobody knows comes last."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES, "n3": DEVICES})
    for node, runtime in (("n1", "3h"), ("n2", "1h"), ("n3", "")):
        selector = {"affinity": on(node)}
        made.starts(f"on-{node}", DEVICES, runtime=runtime, spec=selector)
    made.comes("large", DEVICES)
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 3600)}


async def test_nothing_is_reserved_on_nodes_that_the_pod_may_not_use(unanswered: Client) -> None:
    """Node affinity, a cordon, too little cpu in all; and a cordon that comes later moves the reservation."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES, "n3": DEVICES, "n4": DEVICES})
    for number, runtime in enumerate(("1h", "2h", "3h", "4h"), start=1):
        made.starts(f"old-{number}", DEVICES, runtime=runtime, spec={"affinity": on(f"n{number}")})
    made.world.node("n1", cpu="2")
    made.cordon("n2")
    made.comes("large", DEVICES, cpu="4")
    made.passes(0.0)
    assert made.reserved == {"large": (["n3"], 3 * 3600)}
    made.cordon("n3")
    made.passes(0.0)
    made.passes(0.0)
    assert made.reserved == {"large": (["n4"], 4 * 3600)}
    made.comes("bound", DEVICES, spec={"affinity": on("n3")})
    made.passes(60.0)
    made.passes(60.0)
    assert made.reserved.keys() == {"large"}


async def test_another_replica_reserves_the_same(unanswered: Client) -> None:
    """Nothing of it is written: what it follows from is in the objects."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES}, reserveAfter="60s")
    made.starts("old-1", DEVICES, runtime="2h")
    made.starts("old-2", DEVICES, runtime="1h")
    made.comes("large", DEVICES)
    made.passes(60.0)
    made.passes(0.0)
    before = made.reserved
    assert before == {"large": (["n2"], 3540)}
    for each in made.reservations():
        made.world.snapshot.state.release(each.key)
    made.cycle = made.world.cycle(unanswered)
    made.passes(0.0)
    assert made.reserved == before


async def test_a_reservation_moves_to_where_its_pod_will_start_earlier(unanswered: Client) -> None:
    """Where a pod runs longer than declared nobody knows; so another node may be the better one."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES})
    made.starts("late", 7, runtime="10m")
    made.starts("elsewhere", 7, runtime="2h")
    made.comes("large", DEVICES)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 600)}
    made.world.clock.now += 631.0
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 7200 - 631)}


async def test_cpu_that_becomes_free_counts_as_devices_do(unanswered: Client) -> None:
    """The node whose devices are free first has too little cpu until later."""
    made = Reserving(unanswered, {"n1": 2, "n2": 2})
    made.starts("devices", 2, runtime="1h", cpu="1", spec={"affinity": on("n1")})
    made.world.pod(
        "cpu",
        spec={"nodeName": "n1", "containers": [{"name": "main", "resources": {"requests": {"cpu": "60"}}}]},
    )
    made.starts("both", 2, runtime="2h", cpu="60", spec={"affinity": on("n2")})
    made.comes("large", 2, cpu="32")
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 7200)}


def _two_nodes(client: Client) -> Reserving:
    """Return two nodes, of which the first becomes free in an hour, the second in two."""
    made = Reserving(client, {"n1": DEVICES, "n2": DEVICES})
    made.starts("old-1", DEVICES, runtime="1h", spec={"affinity": on("n1")})
    made.starts("old-2", DEVICES, runtime="2h", spec={"affinity": on("n2")})
    return made


async def test_a_reservation_moves_to_what_another_one_leaves(unanswered: Client) -> None:
    """Nothing else changes on that node: its pod still runs."""
    made = _two_nodes(unanswered)
    for name in ("first", "second"):
        made.comes(name, DEVICES)
        made.passes(1.0)
    assert made.reserved == {"first": (["n1"], 3598), "second": (["n2"], 7198)}
    made.ends("first")
    made.passes(31.0)
    made.passes(0.0)
    assert made.reserved == {"second": (["n1"], 3600 - 33)}


async def test_a_reservation_moves_to_a_node_that_is_not_left_out_any_more(unanswered: Client) -> None:
    """kube-scheduler refused it for the pod, some time ago: on the node itself nothing changes."""
    made = _two_nodes(unanswered)
    made.comes("large", DEVICES)
    [pod] = [pod for pod in made.world.snapshot.pods.values() if pod.name == "large"]
    node = made.world.snapshot.node("n1")
    assert node is not None
    made.cycle._exclusions.refuse_node(pod.uid, node, [node])
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 7200)}
    made.world.clock.now += 60.0
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3540)}


async def test_what_one_leaves_that_is_served_elsewhere_the_next_has_in_the_same_pass(
    unanswered: Client,
) -> None:
    """Both are planned together, and the plan gives nobody what is reserved."""
    made = Reserving(unanswered, {"n1": 4, "n2": 2})
    made.cordon("n2")
    for name in ("old-1", "old-2"):
        made.starts(name, 2)
    for name in ("first", "second"):
        made.comes(name, 2)
        made.passes(0.0)
    assert made.reserved == {"first": (["n1"], None), "second": (["n1"], None)}
    made.ends("old-1")
    made.uncordon("n2")
    assert made.passes() == ["first", "second"]
    assert {made.world.places()[name] for name in ("first", "second")} == {"n1", "n2"}


async def test_a_reservation_that_is_replaced_leaves_nothing_held(unanswered: Client) -> None:
    """The head of higher priority moves to its device in the same look in which it could be planned on another one."""
    made = Reserving(unanswered, {"n1": 3})
    models = ("big", "big", "small")
    devices = [
        {"name": f"gpu-{number}", "attributes": {"model": {"string": model}}}
        for number, model in enumerate(models)
    ]
    made.world.slice("n1", "n1-devices", {"devices": devices}, 1)
    wanted = {model: [request("gpu", expression=f'{MODEL} == "{model}"')] for model in models}
    for hours, model in enumerate(models, start=1):
        made.starts(f"{hours}h", runtime=f"{hours}h", wanted=wanted[model])
    made.comes("high", priority=10, wanted=wanted["big"])
    made.passes(0.0)
    made.comes("low")
    made.passes(0.0)
    assert made.reserved == {"high": (["n1"], 3600), "low": (["n1"], 7200)}
    made.world.slice("n1", "n1-devices", {"devices": devices[1:]}, 1)
    for _ in range(2):
        made.passes(0.0)
        assert len(made.held()) == len(made.reserved)
    assert made.reserved == {"high": (["n1"], 7200), "low": (["n1"], 10800)}
    made.ends("high", "low")
    made.passes(0.0)
    assert not made.held()
