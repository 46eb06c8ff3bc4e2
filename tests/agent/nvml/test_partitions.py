"""Making, finding and removing MIG partitions through the NVML backend."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.agent.devices import models
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import Health, LivePartition, PartitionPlace, Placement
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Occupied, Unsupported
from tests.agent.nvml.nodes import Node, Nodes
from tests.fakes.nvmlprogram import run

PLACES = [
    pytest.param(profile.name, place, id=f"{profile.name}@{place.start}")
    for profile in models.model("H100-80GB").profiles
    for place in profile.placements
]
WANTED = PartitionPlace("gpu-0", "3g.40gb", Placement(4, 4))


def _process(node: Node, verb: str, place: PartitionPlace, *, code: int = 0) -> list[str]:
    """Use the backend in a process of its own; returns the UUIDs it saw."""
    script = Path(__file__).with_name("creator.py")
    words = (place.profile, str(place.placement.start), str(place.placement.size))
    done = subprocess.run(
        [sys.executable, script, node.root, verb, *words],
        env=os.environ | node.fake.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return [line for line in done.stdout.splitlines() if line == "" or line.startswith("MIG-")]


@pytest.mark.parametrize(("profile", "place"), PLACES)
def test_a_partition_lives_and_goes(node: Node, profile: str, place: Placement) -> None:
    """Every place of every profile: made there and nowhere else, listed alike, gone without a trace."""
    made = node.backend.create(PartitionPlace("gpu-0", profile, place))
    (row,) = node.fake.instances()
    assert (row.gpu, row.profile, row.start, row.size) == (0, profile, place.start, place.size)
    assert (made.uuid, made.complete, made.in_use) == (row.compute[0].uuid, True, False)
    assert row.compute[0].slices == int(profile[0])
    assert made.instance == {"gpuInstance": str(row.id), "computeInstance": str(row.compute[0].id)}
    assert node.backend.partitions() == (made,)
    node.backend.destroy(made)
    assert node.backend.partitions() == ()
    assert node.fake.instances() == ()


@pytest.mark.slow
def test_two_processes_see_the_same(node: Node) -> None:
    """What one makes, the other lists and removes."""
    (uuid,) = _process(node, "create", WANTED)
    (live,) = node.backend.partitions()
    assert (live.place, live.uuid) == (WANTED, uuid)
    node.backend.destroy(live)
    assert node.fake.instances() == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("symbol", "after"),
    [
        ("nvmlDeviceCreateGpuInstanceWithPlacement", True),
        ("nvmlGpuInstanceGetComputeInstanceProfileInfoV", False),
        ("nvmlGpuInstanceCreateComputeInstance", False),
    ],
)
def test_a_half_made_instance_is_found_and_removed(node: Node, symbol: str, *, after: bool) -> None:
    """Killed between GPU instance and compute instance: it is listed as not complete, goes, and the place is free."""
    node.fake.kill(symbol, after=after)
    _process(node, "create", WANTED, code=-signal.SIGKILL)
    (half,) = node.backend.partitions()
    assert (half.place, half.complete, half.uuid) == (WANTED, False, "")
    with pytest.raises(NoRoom, match=r"gpu-0 has 3g.40gb at 4 \(half made\)"):
        node.backend.create(WANTED)
    node.backend.destroy(half)
    assert node.fake.instances() == ()
    assert node.backend.create(WANTED).complete


@pytest.mark.slow
def test_a_half_removed_instance_is_found_and_removed(node: Node) -> None:
    """Killed between compute instance and GPU instance: the rest looks like one that is half made."""
    made = node.backend.create(WANTED)
    node.fake.kill("nvmlComputeInstanceDestroy", after=True)
    _process(node, "destroy", WANTED, code=-signal.SIGKILL)
    (half,) = node.backend.partitions()
    assert (half.place, half.complete, half.uuid) == (WANTED, False, "")
    assert half.instance["gpuInstance"] == made.instance["gpuInstance"]
    # Who still means the partition with its UUID does not mean this one.
    node.backend.destroy(made)
    assert node.fake.instances()
    node.backend.destroy(half)
    assert node.fake.instances() == ()


@pytest.mark.slow
def test_the_killed_process_had_finished(node: Node) -> None:
    """Killed right after the compute instance: nothing is missing."""
    node.fake.kill("nvmlGpuInstanceCreateComputeInstance", after=True)
    _process(node, "create", WANTED, code=-signal.SIGKILL)
    (live,) = node.backend.partitions()
    assert live.complete
    assert live.uuid == node.fake.instances()[0].compute[0].uuid


def test_a_partition_with_another_uuid_is_left_alone(node: Node) -> None:
    """Ids and places are used again; only the UUID tells a stranger's partition from ours."""
    old = node.backend.create(WANTED)
    node.backend.destroy(old)
    new = node.backend.create(WANTED)
    assert new.instance == old.instance
    node.backend.destroy(old)
    assert node.backend.partitions() == (new,)
    # And a listing from before it was complete does not remove it either.
    node.backend.destroy(LivePartition("gpu-0", "3g.40gb", WANTED.placement, "", {}, complete=False))
    assert node.backend.partitions() == (new,)


def test_a_partition_in_use_stays_whole(node: Node) -> None:
    """The refusal comes before anything of it is removed."""
    made = node.backend.create(WANTED)
    node.fake.occupy(made.uuid, 4711)
    (live,) = node.backend.partitions()
    assert live.in_use
    with pytest.raises(Busy, match=r"3g.40gb at 4 of gpu-0: a process uses it"):
        node.backend.destroy(live)
    # A process that came between look and removal is the driver's to refuse.
    node.fake.fail("nvmlDeviceGetComputeRunningProcesses_v3", 3)
    with pytest.raises(Busy, match="nvmlComputeInstanceDestroy: In use"):
        node.backend.destroy(live)
    assert node.fake.instances()[0].compute


def test_further_compute_instances_make_it_a_strangers(node_with: Nodes) -> None:
    """Somebody cut a 3g by hand and put two 1c into it: it is listed once, and not removed."""
    node = node_with(["H100-80GB"], mig=True)
    run(node.fake, "instance = cut(gpu(), 9, 0, 4)\nfill(instance, 0)\nfill(instance, 0)")
    (live,) = node.backend.partitions()
    assert (live.profile, live.placement, live.complete) == ("3g.40gb", Placement(0, 4), True)
    with pytest.raises(Busy, match="compute instances that apportion did not make"):
        node.backend.destroy(live)
    assert len(node.fake.instances()[0].compute) == 2


def test_a_refused_compute_instance_leaves_nothing(node: Node) -> None:
    """The GPU instance that was made for it goes again."""
    node.fake.fail("nvmlGpuInstanceCreateComputeInstance", 23)
    with pytest.raises(NoRoom, match="nvmlGpuInstanceCreateComputeInstance"):
        node.backend.create(WANTED)
    assert node.fake.instances() == ()


def test_what_cannot_be_undone_is_shown_as_half_made(node: Node) -> None:
    """The first error is told; the listing shows the rest."""
    node.fake.fail("nvmlGpuInstanceCreateComputeInstance", 23)
    node.fake.fail("nvmlGpuInstanceDestroy", 19)
    with pytest.raises(NoRoom):
        node.backend.create(WANTED)
    (half,) = node.backend.partitions()
    assert not half.complete


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (19, Occupied, "In use"),
        (23, NoRoom, "Insufficient Resources"),
        (3, Unsupported, "Not Supported"),
        (4, Unsupported, "needs root, or the MIG capability files"),
        (15, Lost, "GPU is lost"),
        (16, Unsupported, "needs a reset"),
        (999, HardwareError, "Unknown Error"),
    ],
)
def test_the_drivers_words_become_ours(node: Node, code: int, error: type[HardwareError], said: str) -> None:
    """Object, function and reason are in the text; the kind says what follows."""
    node.fake.fail("nvmlDeviceCreateGpuInstanceWithPlacement", code)
    with pytest.raises(HardwareError) as caught:
        node.backend.create(WANTED)
    assert type(caught.value) is error
    assert str(caught.value).startswith("3g.40gb at 4 of gpu-0: nvmlDeviceCreateGpuInstanceWithPlacement: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (PartitionPlace("gpu-9", "3g.40gb", Placement(0, 4)), "no GPU gpu-9"),
        (PartitionPlace("gpu-0", "5g.50gb", Placement(0, 4)), "gpu-0 offers no profile 5g.50gb"),
        (PartitionPlace("gpu-0", "3g.40gb", Placement(2, 4)), "offers no such placement"),
    ],
)
def test_what_the_gpu_does_not_have_is_unsupported(node: Node, place: PartitionPlace, said: str) -> None:
    """Now or ever; nothing was asked of the driver."""
    with pytest.raises(Unsupported, match=said):
        node.backend.create(place)


def test_mig_mode_comes_with_the_first_partition_and_goes_with_the_last(node: Node) -> None:
    """On Hopper it takes no reset; the other GPU keeps its mode."""
    other = PartitionPlace("gpu-0", "1g.10gb", Placement(0, 1))
    first, second = node.backend.create(WANTED), node.backend.create(other)
    assert [node.fake.mode(0)[0], node.fake.mode(1)[0]] == [True, False]
    node.backend.destroy(first)
    assert node.fake.mode(0)[0]
    node.backend.destroy(second)
    assert not node.fake.mode(0)[0]


def test_mig_mode_waits_for_programs_to_leave(node: Node) -> None:
    """The call answers IN_USE without an error; that is Occupied, and nothing is cut."""
    node.fake.occupy_gpu(0, 4711)
    with pytest.raises(Occupied, match="MIG mode cannot be switched on while programs use the GPU"):
        node.backend.create(WANTED)
    node.fake.occupy_gpu(0, 0)
    assert node.backend.create(WANTED).complete


def test_on_ampere_mig_mode_is_left_to_people(node_with: Nodes) -> None:
    """It stays on after the last partition; where it went off behind our back, the reason is told."""
    node = node_with(["A100-40GB"], mig=True)
    place = PartitionPlace("gpu-0", "3g.20gb", Placement(0, 4))
    node.backend.destroy(node.backend.create(place))
    assert node.fake.mode(0) == (True, True)
    node.fake.set_mode(0, on=False)
    with pytest.raises(Unsupported, match="cannot be switched on without a reset"):
        node.backend.create(place)
    assert node.fake.mode(0) == (False, False)


def test_a_gpu_is_made_whole_only_when_it_is_empty(node: Node) -> None:
    """What a claim for the whole GPU needs: MIG mode off, never by force."""
    made = node.backend.create(WANTED)
    with pytest.raises(Busy, match=r"it is cut; gpu-0 has 3g.40gb at 4"):
        node.backend.make_whole("gpu-0")
    node.fake.fail("nvmlDeviceSetMigMode", 999)
    node.backend.destroy(made)
    assert node.fake.mode(0)[0]
    node.backend.make_whole("gpu-0")
    assert not node.fake.mode(0)[0]
    node.backend.make_whole("gpu-0")


def test_a_lost_gpu_still_shows_what_was_on_it(node: Node) -> None:
    """Nobody may take its partitions for removed; the other GPU is listed as ever."""
    made = node.backend.create(WANTED)
    node.backend.partitions()
    node.fake.lose(0)
    other = node.backend.create(PartitionPlace("gpu-1", "7g.80gb", Placement(0, 8)))
    assert node.backend.partitions() == (made, other)
    with pytest.raises(Lost):
        node.backend.destroy(made)


def test_a_gpu_that_cannot_be_read_shows_what_was_on_it_and_is_sick(node: Node) -> None:
    """Any error, not only that it is lost; the other GPU is listed as ever, and who decides about it is told."""
    made = node.backend.create(WANTED)
    other = node.backend.create(PartitionPlace("gpu-1", "7g.80gb", Placement(0, 8)))
    assert node.backend.partitions() == (made, other)
    node.fake.fail("nvmlDeviceGetGpuInstances", 999, times=2, card=0)
    assert node.backend.partitions() == (made, other)
    assert node.backend.health() == {"gpu-0": Health.SICK}
    with pytest.raises(HardwareError, match="nvmlDeviceGetGpuInstances"):
        node.backend.partitions_of("gpu-0")
    assert node.backend.partitions_of("gpu-0") == (made,)
    assert node.backend.health() == {}


@pytest.mark.slow
async def test_threads_do_not_disturb_each_other(node_with: Nodes) -> None:
    """Eight GPUs are cut at once through the agent's threads, while others list."""
    node = node_with(["H100-80GB"] * 8)
    hardware = Hardware([node.backend])
    await hardware.discover()
    places = [
        PartitionPlace(f"gpu-{gpu}", "1g.10gb", Placement(start, 1)) for gpu in range(8) for start in range(7)
    ]
    *made, _, _ = await asyncio.gather(
        *(hardware.create(place) for place in places), hardware.partitions(), hardware.health()
    )
    assert len({live.uuid for live in made}) == 56
    assert {live.place for live in await hardware.partitions()} == set(places)
    await asyncio.gather(*(hardware.destroy(live) for live in made))
    assert node.fake.instances() == ()
