"""What the driver does after it was given up, and what an object says by the time that its cut is over."""

from pathlib import Path

import pytest

from apportion.agent.devices.values import LivePartition, PartitionPlace
from apportion.agent.lifecycle.context import Timeouts
from apportion.agent.lifecycle.worker import CardWorker
from apportion.errors import Busy, NoRoom, Overtaken
from tests.agent.lifecycle.onecard import PLACE, one_card
from tests.agent.places import H100, MakeBackend


def holder(uid: str) -> dict[str, str]:
    """Return a claim as the holder of a partition."""
    return {"kind": "ResourceClaim", "namespace": "default", "name": uid, "uid": uid}


async def test_what_a_driver_makes_after_it_said_that_it_timed_out_is_the_objects(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It would be nobody's, in the way of its own object for ever, and its room lost."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:

        def time_out(place: PartitionPlace) -> LivePartition:
            raise Busy(f"{place}: nvmlDeviceCreateGpuInstanceWithPlacement: timed out")

        item = node.partition("p1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "create", time_out)
            await node.work()
        assert node.status(item)["phase"] == "Pending"
        made = backend.create(PLACE)
        await node.work()
        assert node.status(item)["phase"] == "Idle"
        assert node.status(item)["uuid"] == made.uuid
        node.delete(item)
        await node.work()
        assert await node.live() == ()


async def test_what_was_found_out_for_one_holder_is_not_said_of_the_next(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The operator would take the devices of a claim away whose partition nobody has tried to cut yet."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        item = node.partition("p1", origin="Claim", holder=holder("a"))

        def refuse(place: PartitionPlace) -> LivePartition:
            known = node.api.items[item["metadata"]["name"]]
            node.show(
                {
                    **known,
                    "metadata": {**known["metadata"], "generation": 2},
                    "spec": {**known["spec"], "holder": holder("b")},
                }
            )
            raise NoRoom(f"{place}: a memory slice is taken")

        node.context.timeouts = Timeouts(room=0.0)
        worker = CardWorker(node.context, "gpu-0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "create", refuse)
            with pytest.raises(Overtaken):
                await worker.round()
        assert node.status(item) == {}
        worker.wake()
        await worker.round()
        status = node.status(item)
        assert (status["phase"], status["observedGeneration"]) == ("Ready", 2)
