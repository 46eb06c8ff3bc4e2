"""An error that the driver contains (XID 94) concerns the partition that it hit, and no other."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.stickyerrors import StickyErrors
from apportion.agent.devices.values import Health, LivePartition, PartitionPlace, Placement
from apportion.agent.proto.health_v1_pb2 import UNHEALTHY
from testbed.eventually import eventually
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.killedagent import killed_agent
from tests.agent.kubelet.claimentries import entries, states
from tests.agent.kubelet.healthlists import heard
from tests.agent.nvml.nodes import MakeFake, Node
from tests.agent.places import GPU
from tests.agent.simulatednode import holder

FIRST, SECOND = Placement(0, 4), Placement(4, 4)
DEVICES = {"gpu-0-mig-3g40gb-9-0": FIRST, "gpu-0-mig-3g40gb-9-4": SECOND}


def backend_of(node: Node, errors: StickyErrors) -> NvmlBackend:
    """Make a backend with these sticky errors, which looks at the GPUs."""
    node.backend.close()
    node.backend = NvmlBackend(node.root, sticky_errors=errors)
    node.backend.devices()
    return node.backend


def cut(backend: NvmlBackend, placement: Placement = FIRST) -> LivePartition:
    """Cut half a GPU."""
    return backend.create(PartitionPlace("gpu-0", "3g.40gb", placement))


def contained(fake: FakeNvml, uuid: str, errors: int = 1) -> None:
    """Let an uncorrected memory error hit a partition; the GPU's counter has it too."""
    hit = next(one for one in fake.instances() if uuid in {compute.uuid for compute in one.compute})
    fake.contain(0, errors, instance=hit.id, compute=hit.compute[0].id)


def test_a_contained_error_marks_the_partition_that_it_hit(node: Node) -> None:
    """The GPU is well, though its counter has the error; the mark goes with the partition."""
    errors = StickyErrors()
    backend = backend_of(node, errors)
    first, _ = cut(backend), cut(backend, SECOND)
    contained(node.fake, first.uuid)
    assert backend.health() == {}
    assert errors.all() == {first.uuid: "XID 94"}
    backend.destroy(first)
    assert errors.all() == {}
    cut(backend)
    assert backend.health() == {}
    assert errors.all() == {}


def test_an_error_that_is_contained_during_a_look_leaves_the_gpu_well(node: Node) -> None:
    """Its event came after the others were read, and its counter was read after it: all partitions of the GPU were sick until the next look."""
    backend, counter = backend_of(node, StickyErrors()), "nvmlDeviceGetTotalEccErrors"
    first = cut(backend)
    asked = node.fake.calls().get(counter, 0)
    node.fake.hang(counter)
    with ThreadPoolExecutor(1) as pool:
        look = pool.submit(backend.health)
        try:
            while node.fake.calls().get(counter, 0) == asked:
                time.sleep(0.01)
            contained(node.fake, first.uuid)
        finally:
            node.fake.drop_rules()
        assert look.result() == {}
    assert backend.health() == {}
    contained(node.fake, first.uuid, 3)
    assert backend.health() == {"gpu-0": Health.SICK}


@pytest.mark.slow
def test_memory_errors_beyond_the_contained_ones_make_the_gpu_sick(node: Node, tmp_path: Path) -> None:
    """Also after a restart, which forgets neither; a reset begins to count anew."""
    errors = StickyErrors(tmp_path / "sick", "boot")
    backend = backend_of(node, errors)
    contained(node.fake, cut(backend).uuid)
    assert backend.health() == {}
    backend = backend_of(node, errors)
    assert backend.health() == {}
    node.fake.ecc(0, 2)
    assert backend.health() == {"gpu-0": Health.SICK}
    node.fake.ecc(0, 0)
    assert backend.health() == {}
    node.fake.ecc(0, 1)
    assert backend.health() == {"gpu-0": Health.SICK}


@pytest.mark.slow
def test_a_contained_error_excuses_no_other_error_of_its_gpu(node: Node, tmp_path: Path) -> None:
    """Neither those before it, nor one of the same moment; also after a restart, which reads the counter before any event."""
    for own_before, own_with_it in ((3, 0), (0, 1)):
        errors = StickyErrors(tmp_path / f"sick-{own_before}", "boot")
        backend = backend_of(node, errors)
        node.fake.ecc(0, own_before)
        assert backend.health() == ({"gpu-0": Health.SICK} if own_before else {})
        first = cut(backend)
        contained(node.fake, first.uuid, own_before + 1 + own_with_it)
        assert backend.health() == {"gpu-0": Health.SICK}
        backend = backend_of(node, errors)
        assert backend.health() == {"gpu-0": Health.SICK}
        (made,) = backend.partitions_of("gpu-0")
        backend.destroy(made)
        node.fake.reset(0)
        assert backend.health() == {}


@pytest.mark.slow
def test_every_contained_error_is_excused_once(node: Node) -> None:
    """Those of two partitions are two; one that several channels of a partition report is one."""
    backend = backend_of(node, StickyErrors())
    first, second = cut(backend), cut(backend, SECOND)
    contained(node.fake, first.uuid, 1)
    contained(node.fake, second.uuid, 2)
    assert backend.health() == {}
    contained(node.fake, first.uuid, 3)
    assert backend.health() == {}
    contained(node.fake, first.uuid, 5)
    contained(node.fake, first.uuid, 5)
    assert backend.health() == {"gpu-0": Health.SICK}


def test_errors_that_were_contained_before_a_reset_excuse_none_after_it(node: Node) -> None:
    """Also where the counter reached the contained ones between two looks."""
    backend = backend_of(node, StickyErrors())
    contained(node.fake, cut(backend).uuid)
    node.fake.ecc(0, 3)
    assert backend.health() == {"gpu-0": Health.SICK}
    node.fake.reset(0)
    node.fake.ecc(0, 1)
    assert backend.health() == {"gpu-0": Health.SICK}


def test_an_error_of_a_partition_that_is_gone_marks_nothing(node: Node) -> None:
    """It was removed before the event was read."""
    errors = StickyErrors()
    backend = backend_of(node, errors)
    first = cut(backend)
    cut(backend, SECOND)
    contained(node.fake, first.uuid)
    backend.destroy(first)
    assert backend.health() == {}
    assert errors.all() == {}


@pytest.mark.parametrize("call", ["nvmlDeviceGetGpuInstanceById", "nvmlComputeInstanceGetInfo_v2"])
def test_an_error_that_hit_nobody_knows_whom_makes_the_gpu_sick(node: Node, call: str) -> None:
    """The event comes only once; all partitions of the GPU are under suspicion."""
    backend = backend_of(node, StickyErrors())
    first = cut(backend)
    contained(node.fake, first.uuid)
    node.fake.fail(call, 999, times=-1)
    assert backend.health()["gpu-0"] is Health.SICK
    node.fake.heal()
    assert backend.health() == {"gpu-0": Health.SICK}


@pytest.mark.slow
def test_an_error_that_is_not_contained_makes_the_gpu_sick_wherever_it_was_seen(node: Node) -> None:
    """XID 95: the ids say where it was seen, not what it spares."""
    backend = backend_of(node, StickyErrors())
    first = cut(backend)
    hit = node.fake.instances()[0]
    assert hit.compute[0].uuid == first.uuid
    node.fake.xid(0, 95, instance=hit.id, compute=0)
    assert backend.health() == {"gpu-0": Health.SICK}


async def test_only_the_partition_that_was_hit_is_kept_from_claims(faked: MakeFake, namespace: str) -> None:
    """Its device is tainted, kubelet, its claim and its object say so; one that is cut at its place later is well."""
    hit, well = DEVICES
    async with faked() as (node, fake), killed_agent(node, "never") as agent:
        claims = {}
        for device in DEVICES:
            claims[device] = await node.claim(namespace, device, device)
            await node.partition(device, "3g.40gb", holder=holder(claims[device]))
            await agent.insist(lambda device=device: node.phase(device, "Ready", within=60))  # type: ignore[misc]
            claim = claims[device]
            answer = await agent.insist(lambda claim=claim: eventually(lambda: node.prepare(claim), bool))  # type: ignore[misc]
            assert answer[claim["metadata"]["uid"]].error == ""
        uuid = (await node.see(hit))["status"]["uuid"]

        async def tainted() -> set[str]:
            return {
                name
                for name, device in (await node.devices()).items()
                if any(row["key"] == "apportion.dev/unhealthy" for row in device["taints"])
            }

        contained(fake, uuid)
        assert await eventually(tainted, bool) == {hit}
        async with node.health() as lists:
            rows = await heard(lists, lambda rows: rows[hit].health == UNHEALTHY)
            assert {name for name, row in rows.items() if row.health == UNHEALTHY} == {hit}
        written = await eventually(
            lambda: entries(node.api, claims[hit]),
            lambda found: "Healthy" in states(found[f"{GPU}/{hit}"]),
        )
        assert states(written[f"{GPU}/{hit}"])["Healthy"] == ("False", "Sick")
        assert "Healthy" not in states((await entries(node.api, claims[well]))[f"{GPU}/{well}"])
        (event,) = await eventually(lambda: node.events("PartitionSick", f"{node.name}-{hit}"), bool)
        assert uuid in event["message"]

        assert await node.unprepared(claims[hit]) == ""
        await node.remove(hit)
        await eventually(lambda: node.see(hit), lambda item: item == {})
        assert await eventually(tainted, lambda found: not found) == set()
        await node.partition(hit, "3g.40gb", origin="Warm")
        await node.phase(hit, "Idle")
        assert await tainted() == set()
