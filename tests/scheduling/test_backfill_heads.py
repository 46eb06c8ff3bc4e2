"""For whom devices are reserved, since when, until when, and what people are told."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from tests.observedcluster import GPU, request
from tests.scheduling.reserving import DEVICES, Reserving, full, older
from tests.scheduling.test_extended_resources import named
from tests.scheduling.test_other_claims import beside


def three_wait(client: Client, most: int) -> Reserving:
    """Return three full nodes, and three demands for a whole one each, of which the policy lets `most` have devices reserved."""
    made = Reserving(client, dict.fromkeys(("n1", "n2", "n3"), 4), mostReserved=most)
    for number in range(3):
        made.starts(f"old-{number}", 4)
    for number in range(3):
        made.comes(f"large-{number}", 4)
        made.world.clock.now += 1.0
    for _ in range(4):
        made.passes()
    return made


async def test_nothing_is_reserved_before_a_pod_has_waited_as_long_as_its_policy_says(
    unanswered: Client,
) -> None:
    """`queue.reserveAfter`."""
    made = full(unanswered, reserveAfter="60s")
    made.comes("large", DEVICES)
    made.passes(59.0)
    made.passes(1.0)
    assert made.reserved == {}
    made.passes()
    assert made.reserved == {"large": (["n1"], None)}


async def test_a_resource_for_which_kube_scheduler_allocates_devices_is_no_room_that_a_node_lacks(
    unanswered: Client,
) -> None:
    """A DeviceClass is behind it, and no device plugin offers it: no node counts any of it."""
    made = full(unanswered)
    beside(made.world, n1={})
    named(made.world, "nics", "example.com/nic", managed=False)
    resources = {"requests": {"cpu": "1", "example.com/nic": "1"}}
    made.comes("large", DEVICES, spec={"containers": [{"name": "main", "resources": resources}]})
    made.passes()
    assert made.reserved == {"large": (["n1"], None)}


async def test_a_reservation_ends_with_its_pod(unanswered: Client) -> None:
    """Others get the devices in the same pass."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("old", 7)
    made.comes("large", DEVICES)
    made.passes()
    made.comes("small")
    assert made.passes() == []
    made.ends("large")
    assert made.passes() == ["small"]
    assert made.held() == {}


async def test_the_first_of_the_queue_come_first_and_no_more_than_the_policy_says(unanswered: Client) -> None:
    """A pod of higher priority that comes later takes the place of the last."""
    made = three_wait(unanswered, 2)
    assert made.reserved.keys() == {"large-0", "large-1"}
    made.comes("urgent", 4, priority=1)
    for _ in range(4):
        made.passes()
    assert made.reserved.keys() == {"large-0", "urgent"}
    devices = [device for each in made.held().values() for device in each]
    assert len(devices) == len(set(devices)) == 8


async def test_the_last_lose_what_is_reserved_where_the_policy_says_less_than_before(
    unanswered: Client,
) -> None:
    """The first lost it, and got it back only when the last of the queue had been served."""
    made = three_wait(unanswered, 3)
    assert made.reserved.keys() == {"large-0", "large-1", "large-2"}
    for most, left in ((2, {"large-0", "large-1"}), (1, {"large-0"})):
        made.world.policy(queue={"reserveAfter": "0s", "mostReserved": most})
        made.passes()
        assert made.reserved.keys() == left


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
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES})
    made.starts("old-1", 6, runtime="1h")
    made.starts("old-2", 6, runtime="2h")
    for number in range(2):
        made.comes(f"worker-{number}", DEVICES, group=("training", 2))
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
    made = full(unanswered, devices=4, order="FIFO")
    made.world.node("other", cpu="64")
    for number in range(2):
        made.comes(f"worker-{number}", 2, group=("training", 2))
    made.passes()
    served: list[str] = []
    for number, old in enumerate(older(4)):
        made.comes(f"new-{number}")
        made.ends(old)
        served += made.passes()
    assert served == ["worker-0", "worker-1"]


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


async def test_an_allocation_that_no_scheduler_takes_is_given_back_for_whom_its_devices_are_reserved(
    unanswered: Client,
) -> None:
    """The reservation itself does not look like somebody who has them."""
    made = Reserving(unanswered, {"n1": 2})
    raw = made.world.claim("stalled", request("gpu", count=2))
    made.world.allocate(raw, "n1", "gpu-0", "gpu-1")
    made.world.pod("never", "stalled")
    made.comes("large", 2)
    made.passes(61.0)
    assert made.reserved == {"large": (["n1"], None)}
    made.passes(0.0)
    assert made.cycle._exclusions.rests(raw["metadata"]["uid"]) > 0


async def test_a_group_that_only_waits_for_pods_is_no_head(unanswered: Client) -> None:
    """The pods that are there have their devices."""
    made = Reserving(unanswered, {"n1": 4})
    for number in range(2):
        gates = {"schedulingGates": [{"name": GATE}]}
        made.comes(f"worker-{number}", group=("training", 3), spec=gates)
    claim, _ = made._objects["worker-0"]
    made.world.allocate(claim, "n1", "gpu-0")
    claim, _ = made._objects["worker-1"]
    made.world.allocate(claim, "n1", "gpu-1")
    assert made.passes() == []
    assert made.reserved == {}
