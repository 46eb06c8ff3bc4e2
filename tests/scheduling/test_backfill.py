"""Others use reserved devices only if they have ended before, or come first; and go around them otherwise."""

from apportion.cluster.client import Client
from tests.scheduling.reserving import DEVICES, Reserving, full, older, on

MILLION = 1_000_000


async def test_a_large_pod_of_high_priority_is_overtaken_by_no_small_ones(unanswered: Client) -> None:
    """load.md 9: one pod ends and a newer one comes in each of 20 rounds; the large one starts in the eighth."""
    made = full(unanswered)
    made.comes("large", DEVICES, priority=MILLION)
    made.passes()
    served: list[str] = []
    for number, old in enumerate(older(DEVICES)):
        made.comes(f"new-{number}")
        made.ends(old)
        served += made.passes()
    assert served == ["large"]


async def test_without_reservations_it_is_overtaken(unanswered: Client) -> None:
    """`queue.mostReserved: 0` is how it was."""
    made = full(unanswered, mostReserved=0)
    made.comes("large", DEVICES, priority=MILLION)
    made.passes()
    served: list[str] = []
    for number, old in enumerate(older(DEVICES)):
        made.comes(f"new-{number}")
        made.ends(old)
        served += made.passes()
    assert served == [f"new-{number}" for number in range(DEVICES)]
    assert made.held() == {}


async def test_a_pod_that_ends_before_uses_reserved_devices_and_one_that_does_not_waits(
    unanswered: Client,
) -> None:
    """Half of the node is free; the rest ends in an hour, and then the large pod starts."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("old", 4, runtime="1h")
    made.comes("large", DEVICES)
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
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("old", 4, spec={"activeDeadlineSeconds": 3600})
    made.comes("large", DEVICES)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3600)}
    made.comes("short", spec={"activeDeadlineSeconds": 1800})
    assert made.passes() == ["short"]


async def test_others_go_around_what_is_reserved(unanswered: Client) -> None:
    """Where as many devices are free elsewhere nobody waits for the large one."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": 2})
    made.starts("old", 7)
    made.comes("large", DEVICES)
    made.passes()
    made.comes("one")
    made.comes("two")
    made.comes("three")
    served = made.passes()
    assert len(served) == 2
    assert made.world.places() == {"old": "n1"} | dict.fromkeys(served, "n2")


async def test_a_pod_of_higher_priority_uses_reserved_devices_and_the_reservation_moves(
    unanswered: Client,
) -> None:
    """Reservations keep the order of the queue, they do not turn it around."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("old", 7, runtime="1h")
    made.comes("large", DEVICES)
    made.passes(0.0)
    made.comes("urgent", priority=1, runtime="3h")
    assert made.passes(0.0) == ["urgent"]
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], 3 * 3600)}


async def test_a_pod_that_runs_longer_than_declared_is_not_ended_and_nobody_overtakes_by_what_it_said(
    unanswered: Client,
) -> None:
    """When its devices become free is not known any more."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("late", 7, runtime="10m")
    made.comes("large", DEVICES)
    made.passes(631.0)
    made.passes(0.0)
    assert made.reserved == {"large": (["n1"], None)}
    made.comes("short", runtime="1s", namespace="other")
    assert made.passes() == []
    assert made.world.places() == {"late": "n1"}


async def test_no_annotation_of_a_namespace_is_believed_while_one_of_its_pods_exceeds_its_own(
    unanswered: Client,
) -> None:
    """A deadline is: kubelet ends the pod."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": 1})
    made.starts("other", 5, runtime="2h", namespace="other")
    made.starts("late", 1, runtime="10m", spec={"affinity": on("n2")})
    made.world.clock.now += 631.0
    made.comes("large", DEVICES)
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
    made.comes("later", runtime="1m")
    assert made.passes() == ["later"]


async def test_a_runtime_that_nobody_can_read_is_said_to_be_so_and_costs_nobody(unanswered: Client) -> None:
    """The pod is served, as one that declares nothing."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("old", 4, runtime="1h")
    made.comes("large", DEVICES)
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


async def test_who_waits_for_other_devices_is_not_blocked_by_the_first_of_the_queue(
    unanswered: Client,
) -> None:
    """Kueue 8309: order within what competes, nothing between what does not."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": 1}, order="FIFO")
    made.starts("old", DEVICES)
    made.comes("large", DEVICES)
    made.passes()
    made.comes("elsewhere", spec={"affinity": on("n2")})
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
