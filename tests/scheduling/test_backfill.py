"""The first of the queue that does not fit gets devices reserved; others use them only if they have ended before."""

from collections.abc import Iterable

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from tests.observedcluster import GPU, request
from tests.scheduling.reserving import Reserving

EIGHT = 8
MILLION = 1_000_000


def _full(client: Client, *, devices: int = EIGHT, runtime: str = "", **queue: object) -> Reserving:
    """Return a node of which single pods use all devices."""
    made = Reserving(client, {"n1": devices}, **queue)
    for number in range(devices):
        made.starts(f"old-{number}", runtime=runtime)
    return made


def _older(count: int) -> Iterable[str]:
    return (f"old-{number}" for number in range(count))


async def test_a_large_pod_of_high_priority_is_overtaken_by_no_small_ones(unanswered: Client) -> None:
    """load.md 9: one pod ends and a newer one comes in each of 20 rounds; the large one starts in the eighth."""
    made = _full(unanswered)
    made.comes("large", EIGHT, priority=MILLION)
    made.passes()
    served: list[str] = []
    for number, old in enumerate(_older(EIGHT)):
        made.comes(f"new-{number}")
        made.ends(old)
        served += made.passes()
    assert served == ["large"]


async def test_without_reservations_it_is_overtaken(unanswered: Client) -> None:
    """`queue.mostReserved: 0` is how it was."""
    made = _full(unanswered, mostReserved=0)
    made.comes("large", EIGHT, priority=MILLION)
    made.passes()
    served: list[str] = []
    for number, old in enumerate(_older(EIGHT)):
        made.comes(f"new-{number}")
        made.ends(old)
        served += made.passes()
    assert served == [f"new-{number}" for number in range(EIGHT)]
    assert made.held() == {}


async def test_nothing_is_reserved_before_a_pod_has_waited_as_long_as_its_policy_says(
    unanswered: Client,
) -> None:
    """`queue.reserveAfter`."""
    made = _full(unanswered, reserveAfter="60s")
    made.comes("large", EIGHT)
    made.passes(59.0)
    made.passes(1.0)
    assert made.reserved == {}
    made.passes()
    assert made.reserved == {"large": (["n1"], None)}


async def test_a_pod_that_ends_before_uses_reserved_devices_and_one_that_does_not_waits(
    unanswered: Client,
) -> None:
    """Half of the node is free; the rest ends in an hour, and then the large pod starts."""
    made = Reserving(unanswered, {"n1": EIGHT})
    made.starts("old", 4, runtime="1h")
    made.comes("large", EIGHT)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3600)}
    for name, runtime in (
        ("silent", ""),
        ("long", "2h"),
        ("short", "30m"),
        ("exact", "3595s"),
        ("over", "3599s"),
    ):
        made.comes(name, runtime=runtime)
    assert made.passes(0.0) == ["short", "exact"]
    assert made.reserved == {"large": (["n1"], 3600)}
    made.world.clock.now += 3595.0
    made.ends("short", "exact")
    assert made.passes(5.0) == []
    made.ends("old")
    assert made.passes() == ["large"]


async def test_the_deadline_of_a_pod_counts_as_its_runtime(unanswered: Client) -> None:
    """Kubelet ends the pod then (core/v1 activeDeadlineSeconds)."""
    made = Reserving(unanswered, {"n1": EIGHT})
    made.starts("old", 4, spec={"activeDeadlineSeconds": 3600})
    made.comes("large", EIGHT)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3600)}
    made.comes("short", spec={"activeDeadlineSeconds": 1800})
    assert made.passes() == ["short"]


async def test_others_go_around_what_is_reserved(unanswered: Client) -> None:
    """Where as many devices are free elsewhere nobody waits for the large one."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": 2})
    made.starts("old", 7)
    made.comes("large", EIGHT)
    made.passes()
    made.comes("one")
    made.comes("two")
    made.comes("three")
    served = made.passes()
    assert len(served) == 2
    assert made.world.places() == {"old": "n1"} | dict.fromkeys(served, "n2")


async def test_devices_are_reserved_where_they_become_free_first(unanswered: Client) -> None:
    """By what the pods there declare; a node of which nobody knows comes last."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": EIGHT, "n3": EIGHT})
    for node, runtime in (("n1", "3h"), ("n2", "1h"), ("n3", "")):
        selector = {"affinity": _on(node)}
        made.starts(f"on-{node}", EIGHT, runtime=runtime, spec=selector)
    made.comes("large", EIGHT)
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 3600)}


def _on(node: str) -> dict[str, object]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


async def test_nothing_is_reserved_on_nodes_that_the_pod_may_not_use(unanswered: Client) -> None:
    """Node affinity, a cordon, too little cpu in all; and a cordon that comes later moves the reservation."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": EIGHT, "n3": EIGHT, "n4": EIGHT})
    for number, runtime in enumerate(("1h", "2h", "3h", "4h"), start=1):
        made.starts(f"old-{number}", EIGHT, runtime=runtime, spec={"affinity": _on(f"n{number}")})
    made.world.node("n1", cpu="2")
    _cordon(made, "n2")
    made.comes("large", EIGHT, cpu="4")
    made.passes(0.0)
    assert made.reserved == {"large": (["n3"], 3 * 3600)}
    _cordon(made, "n3")
    made.passes(0.0)
    made.passes(0.0)
    assert made.reserved == {"large": (["n4"], 4 * 3600)}
    made.comes("bound", EIGHT, spec={"affinity": _on("n3")})
    made.passes(60.0)
    made.passes(60.0)
    assert made.reserved.keys() == {"large"}


def _cordon(made: Reserving, name: str) -> None:
    raw = made.world.node(name, cpu="64")
    made.world.see(NODES, raw | {"spec": {"unschedulable": True}})


async def test_a_pod_of_higher_priority_uses_reserved_devices_and_the_reservation_moves(
    unanswered: Client,
) -> None:
    """Reservations keep the order of the queue, they do not turn it around."""
    made = Reserving(unanswered, {"n1": EIGHT})
    made.starts("old", 7, runtime="1h")
    made.comes("large", EIGHT)
    made.passes(0.0)
    made.comes("urgent", priority=1, runtime="3h")
    assert made.passes(0.0) == ["urgent"]
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3 * 3600)}


async def test_a_reservation_ends_with_its_pod(unanswered: Client) -> None:
    """Others get the devices in the same pass."""
    made = Reserving(unanswered, {"n1": EIGHT})
    made.starts("old", 7)
    made.comes("large", EIGHT)
    made.passes()
    made.comes("small")
    assert made.passes() == []
    made.ends("large")
    assert made.passes() == ["small"]
    assert made.held() == {}


async def test_the_first_of_the_queue_come_first_and_no_more_than_the_policy_says(unanswered: Client) -> None:
    """A pod of higher priority that comes later takes the place of the last."""
    made = Reserving(unanswered, dict.fromkeys(("n1", "n2", "n3"), 4), mostReserved=2)
    for number in range(3):
        made.starts(f"old-{number}", 4)
    for number in range(3):
        made.comes(f"large-{number}", 4)
        made.world.clock.now += 1.0
    for _ in range(4):
        made.passes()
    assert made.reserved.keys() == {"large-0", "large-1"}
    made.comes("urgent", 4, priority=1)
    for _ in range(4):
        made.passes()
    assert made.reserved.keys() == {"large-0", "urgent"}
    devices = [device for each in made.held().values() for device in each]
    assert len(devices) == len(set(devices)) == 8


async def test_namespaces_take_turns_in_what_is_reserved(unanswered: Client) -> None:
    """One tenant's many large pods do not keep the place of another's one."""
    made = Reserving(unanswered, {"n1": 4, "n2": 4}, mostReserved=2)
    made.starts("old-1", 4)
    made.starts("old-2", 4)
    for number in range(3):
        made.comes(f"many-{number}", 4, namespace="many")
        made.world.clock.now += 1.0
    made.comes("few", 4, namespace="few")
    for _ in range(4):
        made.passes()
    assert made.reserved.keys() == {"many-0", "few"}


async def test_another_replica_reserves_the_same(unanswered: Client) -> None:
    """Nothing of it is written: what it follows from is in the objects."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": EIGHT}, reserveAfter="60s")
    made.starts("old-1", EIGHT, runtime="2h")
    made.starts("old-2", EIGHT, runtime="1h")
    made.comes("large", EIGHT)
    made.passes(60.0)
    made.passes(0.0)
    before = made.reserved
    assert before == {"large": (["n2"], 3540)}
    for each in made.reservations():
        made.world.snapshot.state.release(each.key)
    made.cycle = made.world.cycle(unanswered)
    made.passes(0.0)
    assert made.reserved == before


async def test_a_pod_that_runs_longer_than_declared_is_not_ended_and_nobody_overtakes_by_what_it_said(
    unanswered: Client,
) -> None:
    """When its devices become free is not known any more."""
    made = Reserving(unanswered, {"n1": EIGHT})
    made.starts("late", 7, runtime="10m")
    made.comes("large", EIGHT)
    made.passes(631.0)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], None)}
    made.comes("short", runtime="1s", namespace="other")
    assert made.passes() == []
    assert made.world.places() == {"late": "n1"}


async def test_a_reservation_moves_to_where_its_pod_will_start_earlier(unanswered: Client) -> None:
    """Where a pod runs longer than declared nobody knows; so another node may be the better one."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": EIGHT})
    made.starts("late", 7, runtime="10m")
    made.starts("elsewhere", 7, runtime="2h")
    made.comes("large", EIGHT)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 600)}
    made.world.clock.now += 631.0
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 7200 - 631)}


async def test_no_annotation_of_a_namespace_is_believed_while_one_of_its_pods_exceeds_its_own(
    unanswered: Client,
) -> None:
    """A deadline is: kubelet ends the pod."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": 1})
    made.starts("other", 5, runtime="2h", namespace="other")
    made.starts("late", 1, runtime="10m", spec={"affinity": _on("n2")})
    made.world.clock.now += 631.0
    made.comes("large", EIGHT)
    made.passes(0.0)
    made.passes(0.0)
    made.comes("short", runtime="1m")
    made.comes("honest", runtime="1m", namespace="other")
    made.comes("ended", spec={"activeDeadlineSeconds": 60})
    assert made.passes() == ["honest", "ended"]
    made.ends("late")
    made.passes()
    made.passes()
    assert "short" in made.world.places()


async def test_a_runtime_that_nobody_can_read_is_said_to_be_so_and_costs_nobody(unanswered: Client) -> None:
    """The pod is served, as one that declares nothing."""
    made = Reserving(unanswered, {"n1": EIGHT})
    made.starts("old", 4, runtime="1h")
    made.comes("large", EIGHT)
    made.passes(0.0)
    made.comes("soon", runtime="soon")
    made.comes("short", runtime="1m")
    assert made.passes() == ["short"]
    [text] = made.texts("soon", "BadRuntime")
    assert text == (
        "Pod team/soon: metadata.annotations[apportion.dev/max-runtime] is 'soon', not a duration such as 45m, 1h30m or 36h;"
        " the pod counts as one that declares no runtime"
    )
    assert made.texts("short", "BadRuntime") == []
    made.ends("large")
    assert made.passes() == ["soon"]


async def test_events_say_what_is_reserved_since_when_and_when_it_is_expected(unanswered: Client) -> None:
    """On the pod and on its claim; and who declares nothing, where that is why nobody knows."""
    made = Reserving(unanswered, {"n1": 2})
    made.starts("old", runtime="1h")
    made.starts("silent")
    made.comes("large", 2)
    made.passes(0.0)
    since = made.world.time()
    [text, other] = made.texts("large", "Reserved")
    assert (
        text
        == other
        == (
            f"reserved {GPU}/n1/gpu-0, {GPU}/n1/gpu-1 since {since}; when it starts is not known: team/silent declare no"
            " runtime (annotation apportion.dev/max-runtime)"
        )
    )
    made.ends("silent")
    made.passes(0.0)
    assert made.texts("large", "Reserved")[-1] == (
        f"reserved {GPU}/n1/gpu-0, {GPU}/n1/gpu-1 since {since}; expected to start at {made.world.time(3600)}, when"
        " team/old will have ended by declared runtimes"
    )


async def test_a_group_that_does_not_fit_gets_devices_reserved_together(unanswered: Client) -> None:
    """KAI-Scheduler 1969: small pods use them as long as they end before, and the group starts."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": EIGHT})
    made.starts("old-1", 6, runtime="1h")
    made.starts("old-2", 6, runtime="2h")
    for number in range(2):
        made.comes(f"worker-{number}", EIGHT, group=("training", 2))
    made.passes(0.0)
    assert made.reserved == {"training": (["n1", "n2"], 7200)}
    made.comes("short", runtime="1h")
    made.comes("long", runtime="3h")
    made.comes("silent")
    assert made.passes(0.0) == ["short"]
    made.world.clock.now += 3600.0
    made.ends("old-1", "short")
    assert made.passes(3600.0) == []
    made.ends("old-2")
    assert made.passes() == ["worker-0", "worker-1"]
    assert "training" not in made.reserved


async def test_a_stream_of_small_pods_starves_no_group(unanswered: Client) -> None:
    """Kueue 8309: in its BestEffortFIFO gangs starve, and StrictFIFO blocks what waits for other devices."""
    made = _full(unanswered, devices=4, order="FIFO")
    made.world.node("other", cpu="64")
    for number in range(2):
        made.comes(f"worker-{number}", 2, group=("training", 2))
    made.passes()
    served: list[str] = []
    for number, old in enumerate(_older(4)):
        made.comes(f"new-{number}")
        made.ends(old)
        served += made.passes()
    assert served == ["worker-0", "worker-1"]


async def test_who_waits_for_other_devices_is_not_blocked_by_the_first_of_the_queue(
    unanswered: Client,
) -> None:
    """Kueue 8309: order within what competes, nothing between what does not."""
    made = Reserving(unanswered, {"n1": EIGHT, "n2": 1}, order="FIFO")
    made.starts("old", EIGHT)
    made.comes("large", EIGHT)
    made.passes()
    made.comes("elsewhere", spec={"affinity": _on("n2")})
    assert made.passes() == ["elsewhere"]


async def test_nobody_has_to_declare_a_runtime(unanswered: Client) -> None:
    """KAI-Scheduler 1987 asks whether it is mandatory: without one the devices stay free until the head starts."""
    made = Reserving(unanswered, {"n1": 2})
    made.starts("old-1")
    made.starts("old-2")
    made.comes("large", 2)
    made.passes()
    made.comes("small")
    made.ends("old-1")
    assert made.passes() == []
    made.ends("old-2")
    assert made.passes() == ["large"]


async def test_of_equal_pods_the_next_gets_devices_reserved_once_the_first_has_its_own(
    unanswered: Client,
) -> None:
    """They were refused for one shape, and wait behind each other."""
    made = Reserving(unanswered, {"n1": 2}, mostReserved=1)
    made.starts("old", 2)
    for number in range(3):
        made.comes(f"large-{number}", 2)
        made.world.clock.now += 1.0
    last = "old"
    for number in range(3):
        made.passes()
        assert made.reserved.keys() == {f"large-{number}"}
        made.ends(last)
        last = f"large-{number}"
        assert made.passes() == [last]


async def test_cpu_that_becomes_free_counts_as_devices_do(unanswered: Client) -> None:
    """The node whose devices are free first has too little cpu until later."""
    made = Reserving(unanswered, {"n1": 2, "n2": 2})
    made.starts("devices", 2, runtime="1h", cpu="1", spec={"affinity": _on("n1")})
    made.world.pod("cpu", spec={"nodeName": "n1", "containers": [_container("60")]})
    made.starts("both", 2, runtime="2h", cpu="60", spec={"affinity": _on("n2")})
    made.comes("large", 2, cpu="32")
    made.passes(0.0)
    assert made.reserved == {"large": (["n2"], 7200)}


def _container(cpu: str) -> dict[str, object]:
    return {"name": "main", "resources": {"requests": {"cpu": cpu}}}


async def test_an_allocation_that_no_scheduler_takes_is_given_back_for_whom_its_devices_are_reserved(
    unanswered: Client,
) -> None:
    """The reservation itself does not look like somebody who has them."""
    made = Reserving(unanswered, {"n1": 2})
    raw = made.world.claim("stalled", _request(2))
    made.world.allocate(raw, "n1", "gpu-0", "gpu-1")
    made.world.pod("never", "stalled")
    made.comes("large", 2)
    made.passes(61.0)
    assert made.reserved == {"large": (["n1"], None)}
    made.passes(0.0)
    assert made.cycle._exclusions.rests(raw["metadata"]["uid"]) > 0


def _request(count: int) -> dict[str, object]:
    return request("gpu", count=count)
