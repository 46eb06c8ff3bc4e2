"""Agents write the slices of a node anew: what is reserved there stays reserved, although some of it is not shown for a moment."""

from collections.abc import Sequence

from apportion.api.contract import HELD
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, SLICES
from apportion.scheduling.backfill.reservations import REPLANNED
from tests.observedcluster import GPU, Json
from tests.scheduling.reserving import DEVICES, Reserving, on

HALF = DEVICES // 2


def large_waits(client: Client, **nodes: int) -> Reserving:
    """Return a node of which half is used for an hour, all of it reserved for a pod, and a younger pod for one device."""
    made = Reserving(client, {"n1": DEVICES, **nodes}, mostReserved=1)
    for name, count in nodes.items():
        made.starts(f"on-{name}", count, spec={"affinity": on(name)})
    made.starts("old", HALF, runtime="1h")
    made.comes("large", DEVICES)
    assert made.passes(0.0) == []
    assert made.reserved == {"large": (["n1"], 3600)}
    made.world.clock.now += 1.0
    made.comes("silent")
    assert made.passes(0.0) == []
    return made


def devices(first: int, count: int, *, held: Sequence[int] = ()) -> list[Json]:
    """Return so many devices of the node, with a taint on those that are still prepared for a claim which has lost them."""
    taint = {"key": HELD, "value": "uid-team-resourceclaims-old", "effect": "NoSchedule"}
    return [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": "h100"}},
            **({"taints": [taint]} if number in held else {}),
        }
        for number in range(first, first + count)
    ]


def publish(made: Reserving, name: str, content: list[Json], generation: int, of: int) -> None:
    """Let one slice of the node's pool be written."""
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": of}
    spec = {"driver": GPU, "nodeName": "n1", "pool": pool, "devices": content}
    made.world.see(SLICES, {"metadata": {"name": name}, "spec": spec})


async def test_slices_that_are_written_one_after_the_other_end_no_reservation(unanswered: Client) -> None:
    """Between the two writes the pool has no devices (KEP-4381, pool.resourceSliceCount)."""
    made = large_waits(unanswered)
    publish(made, "n1-devices", devices(0, HALF), 2, 2)
    assert made.passes(0.0) == []
    assert [*made.reserved] == ["large"]
    publish(made, "n1-more", devices(HALF, HALF), 2, 2)
    assert made.passes(0.0) == []
    assert made.reserved == {"large": (["n1"], 3599)}
    made.ends("old")
    assert made.passes(0.0) == ["large"]


async def test_slices_that_kubelet_deletes_at_its_start_end_no_reservation(unanswered: Client) -> None:
    """The agent writes them again within a second."""
    made = large_waits(unanswered)
    made.world.gone(SLICES, made.world.seen[SLICES, "", "n1-devices"])
    assert made.passes(0.0) == []
    assert [*made.reserved] == ["large"]
    publish(made, "n1-devices", devices(0, DEVICES), 2, 1)
    assert made.passes(0.0) == []
    assert made.reserved == {"large": (["n1"], 3599)}


async def test_devices_that_containers_of_a_former_pod_still_have_stay_reserved_for_a_moment(
    unanswered: Client,
) -> None:
    """A pod that was deleted by force: its devices are free once kubelet has unprepared its claim."""
    made = large_waits(unanswered)
    [used] = [
        [int(each.device.name.removeprefix("gpu-")) for each in claim.allocation.results]
        for claim in made.world.snapshot.claims.values()
        if claim.allocation is not None
    ]
    made.ends("old")
    publish(made, "n1-devices", devices(0, DEVICES, held=used), 2, 1)
    assert made.passes() == []
    assert [*made.reserved] == ["large"]
    publish(made, "n1-devices", devices(0, DEVICES), 3, 1)
    assert made.passes() == ["large"]


async def test_what_does_not_come_back_is_reserved_no_longer(unanswered: Client) -> None:
    """Half of the cards are gone, and the slices stay incomplete."""
    made = large_waits(unanswered)
    publish(made, "n1-devices", devices(0, HALF), 2, 2)
    made.passes(REPLANNED / 2)
    assert [*made.reserved] == ["large"]
    made.passes(REPLANNED / 2)
    assert [*made.reserved] == ["large"]
    made.passes()
    assert made.reserved == {}
    assert made.held() == {}


async def test_a_reservation_leaves_a_node_that_is_gone_at_once(unanswered: Client) -> None:
    """It goes to another one, where devices become free nobody knows when."""
    made = large_waits(unanswered, n2=DEVICES)
    made.world.gone(NODES, made.world.seen[NODES, "", "n1"])
    made.passes()
    assert made.reserved == {"large": (["n2"], None)}
