"""What the driver does after it was given up, and what an object says by the time that its cut is over."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pynvml
import pytest

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.lifecycle.context import Timeouts
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.rows import Step
from apportion.errors import NotReady
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.onecard import DEVICE, LAYOUT, PLACE, OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes
from tests.agent.places import H100, MakeBackend

CREATE, DESTROY = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy"


def holder(uid: str) -> dict[str, str]:
    """Return a claim as the holder of a partition."""
    return {"kind": "ResourceClaim", "namespace": "default", "name": uid, "uid": uid}


@contextmanager
def failing(backend: SimulatedBackend, error: str, *, times: int = 100) -> Iterator[None]:
    """Let the driver refuse what it is to make with an error, so many times at most."""
    with backend.state.changing() as state:
        state["faults"]["failures"] = [{"verb": "create", "card": "", "error": error, "times": times}]
    yield
    with backend.state.changing() as state:
        state["faults"]["failures"] = []


@pytest.mark.slow
async def test_what_a_driver_makes_after_it_said_that_it_timed_out_is_the_objects(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It would be nobody's, in the way of its own object for ever, and its room lost."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        item = node.partition("p1")
        with failing(backend, "Busy"):
            await node.work()
        assert node.status(item)["phase"] == "Pending"
        made = backend.create(PLACE)
        await node.work()
        assert node.status(item)["phase"] == "Idle"
        assert node.status(item)["uuid"] == made.uuid
        node.delete(item)
        await node.work()
        assert await node.live() == ()


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["never made", "made late"])
async def test_what_a_driver_may_make_yet_is_waited_for_when_its_object_goes(
    tmp_path: Path, make_backend: MakeBackend, *, late: bool
) -> None:
    """The operator gives a claim other devices after a time-out, and deletes the object: what comes then would be nobody's."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        now = [100.0]
        node.context.clock = lambda: now[0]
        item = node.partition("p1")
        with failing(backend, "Busy"):
            await node.work()
        node.delete(item)
        await node.work()
        assert node.status(item)["phase"] == "Releasing"
        if late:
            backend.create(PLACE)
        else:
            now[0] += node.context.timeouts.late
        await node.work()
        assert node.items == {}
        assert await node.live() == ()


@pytest.mark.parametrize("late", [False, True], ids=["never made", "made late"])
async def test_a_card_is_not_given_whole_while_a_driver_may_make_a_partition_yet(
    tmp_path: Path, make_backend: MakeBackend, *, late: bool
) -> None:
    """The operator gave the claim of the partition other devices, and the card to the next claim: what came then was under its containers."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        now = [100.0]
        node.context.clock = lambda: now[0]
        node.context.timeouts = Timeouts(late=20.0)
        item = node.partition("p1")
        with failing(backend, "Busy"):
            await node.work()
        node.delete(item)
        await node.work()
        preparing = asyncio.create_task(preparer(tmp_path, node, "gpu-0").prepare(REF))
        assert await asyncio.wait({preparing}, timeout=0.3) == (set(), {preparing})
        if late:
            backend.create(PLACE)
        else:
            now[0] += node.context.timeouts.late
        await node.work()
        (device,) = await preparing
        assert (device.device, await node.live()) == ("gpu-0", ())


@pytest.mark.slow
async def test_what_a_driver_may_make_yet_is_waited_for_though_it_refuses_the_next_try(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The first call may be what the second one finds no room beside: what comes then is the object's."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        item = node.partition("p1")
        for error in ("Busy", "NoRoom"):
            with failing(backend, error):
                await node.work()
        made = backend.create(PLACE)
        await node.work()
        assert (node.status(item)["phase"], node.status(item)["uuid"]) == ("Idle", made.uuid)


@pytest.mark.slow
async def test_what_was_refused_long_after_a_time_out_is_never_made(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its row would keep an id of a vNPU that nobody has."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        now = [100.0]
        node.context.clock = lambda: now[0]
        node.partition("p1")
        with failing(backend, "Busy"):
            await node.work()
        now[0] += node.context.timeouts.late
        with failing(backend, "NoRoom"):
            await node.work()
        assert node.context.journal.partitions() == {}


async def test_a_partition_whose_compute_instance_the_driver_tells_late_is_its_objects(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Written down without its UUID, it passed for one that a person had made: nobody got its place any more, nor removed it."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        item = node.partition("p1")
        gpu.fake.fail("nvmlDeviceGetUUID", pynvml.NVML_ERROR_NOT_FOUND)
        await node.work()
        assert node.context.journal.partitions()["p1"].step is Step.INTENT
        await node.work()
        assert (node.status(item)["phase"], node.status(item)["uuid"]) == (
            "Idle",
            gpu.fake.instances()[0].compute[0].uuid,
        )
        assert gpu.fake.calls()[CREATE] == 1
        node.delete(item)
        await node.work()
        assert gpu.fake.instances() == ()


async def test_what_others_made_at_the_place_of_something_that_was_never_made_is_theirs(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A layout may take the place while the object of a claim waits for a driver that timed out."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        now = [100.0]
        node.context.clock = lambda: now[0]
        item = node.partition("p1")
        with failing(backend, "Busy"):
            await node.work()
        node.delete(item)
        second = node.partition("p2", f"{DEVICE}-static", origin="Layout", holder=LAYOUT)
        await node.work()
        assert node.status(second)["phase"] == "Ready"
        (made,) = await node.live()
        now[0] += node.context.timeouts.late
        await node.work()
        assert [*node.items] == [second["metadata"]["name"]]
        assert await node.live() == (made,)


async def test_what_others_made_at_the_place_is_not_taken_for_what_a_driver_made_late(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Two objects, each with a device of its own name, would stand for one partition, and two claims get it."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        first = node.partition("p1")
        second = node.partition("p2", f"{DEVICE}-static", origin="Layout", holder=LAYOUT)
        with failing(backend, "Busy", times=1):
            await node.work()
        assert [node.status(each)["phase"] for each in (first, second)] == ["Pending", "Ready"]
        await node.work()
        assert [node.status(each)["phase"] for each in (first, second)] == ["Pending", "Ready"]
        (made,) = await node.live()
        assert [row.uid for row in node.context.journal.partitions().values() if row.uuid == made.uuid] == [
            "p2"
        ]


async def test_what_was_found_out_for_one_holder_is_not_said_of_the_next(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The operator would take the devices of a claim away whose partition nobody has tried to cut yet."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        item = node.partition("p1", origin="Claim", holder=holder("a"))

        def at(step: str) -> None:
            if step != "partition.intent":
                return
            node.context.at = lambda _: None
            known = node.items[item["metadata"]["name"]]
            metadata = {**known["metadata"], "generation": 2}
            node.show({**known, "metadata": metadata, "spec": {**known["spec"], "holder": holder("b")}})

        node.context.at = at
        node.context.timeouts = Timeouts(room=0.0, shown=60.0)
        worker = CardWorker(node.context, "gpu-0")
        with failing(backend, "NoRoom"):
            assert await worker.round() == node.context.timeouts.first_retry
        assert node.status(item) == {}
        await worker.round()
        status = node.status(item)
        assert (status["phase"], status["observedGeneration"]) == ("Ready", 2)


@asynccontextmanager
async def cutting(node: OneCard, gpu: Node) -> AsyncIterator[None]:
    """Have an agent begin to cut a partition, and end while the driver's call is out; it goes on after the block at the latest."""
    gpu.fake.hang(CREATE)
    working = asyncio.create_task(node.work())

    async def calls() -> int:
        return gpu.fake.calls().get(CREATE, 0)

    await eventually(calls, lambda count: count == 1)
    working.cancel()
    await asyncio.wait({working})
    assert gpu.fake.instances() == ()
    try:
        yield
    finally:
        gpu.fake.drop_rules()
        await asyncio.gather(*node.context.hardware.changes("gpu-0"))


async def test_the_next_agent_waits_for_the_driver_of_one_that_ends(tmp_path: Path, make_gpus: Nodes) -> None:
    """It would look at the card before the partition is there, and forget whose it is: the room would be lost."""
    gpu = make_gpus()
    with closing(NvmlBackend(gpu.root)) as next_one:
        async with one_card(tmp_path, gpu.backend) as node, one_card(tmp_path, next_one) as other:
            item = node.partition("p1")
            async with cutting(node, gpu):
                for each in node.items.values():
                    other.show(each)
                other.delete(item)
                removing = asyncio.create_task(other.work())
                assert await asyncio.wait({removing}, timeout=0.2) == (set(), {removing})
            await removing
            assert gpu.fake.calls()[DESTROY] == 1
            assert await other.live() == ()
            assert other.context.journal.partitions() == {}


async def test_who_comes_next_in_the_same_agent_does_not_wait_for_the_driver(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Kubelet gets its answer, and another agent the reason why it has none; the card is free for all once the driver is back."""
    gpu = make_gpus()
    with closing(NvmlBackend(gpu.root)) as next_one:
        async with one_card(tmp_path, gpu.backend) as node, one_card(tmp_path, next_one) as other:
            other.context.timeouts = Timeouts(locked=0.1)
            node.partition("p1")
            async with cutting(node, gpu):
                for _ in range(2):
                    async with asyncio.timeout(30), node.context.lock("gpu-0"):
                        pass
                    with pytest.raises(NotReady, match="gpu-0 is locked by another agent"):
                        async with other.context.lock("gpu-0"):
                            pass
                async with node.context.lock("gpu-0"):
                    gpu.fake.drop_rules()
                    await asyncio.wait(node.context.hardware.changes("gpu-0"))
                    with pytest.raises(NotReady, match="gpu-0 is locked by another agent"):
                        async with other.context.lock("gpu-0"):
                            pass
            async with asyncio.timeout(30), other.context.lock("gpu-0"):
                pass
