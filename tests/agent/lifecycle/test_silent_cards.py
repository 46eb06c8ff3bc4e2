"""The journal was lost, and the card does not answer when the next agent starts: what is on it is unknown, and ours all the same."""

from pathlib import Path
from typing import Any

import pytest

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.errors import Lost
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import H100, MakeBackend


def silenced(patch: pytest.MonkeyPatch, backend: SimulatedBackend, verb: str) -> None:
    """Have the card not answer a question."""

    def refuse(*_: object) -> Any:
        raise Lost("gpu-0 does not answer")

    patch.setattr(backend, verb, refuse)


@pytest.mark.parametrize("verb", ["partitions_of", "devices"])
async def test_a_status_says_whose_a_partition_is_until_its_card_answers(
    tmp_path: Path, make_backend: MakeBackend, verb: str
) -> None:
    """Nothing else says it: without the UUID the partition would be a person's, and in the way of its own object for ever."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as former:
        item = former.partition("p1")
        await former.work()
        (made,) = await former.live()
        seen = former.items
    with pytest.MonkeyPatch.context() as patch:
        silenced(patch, backend, verb)
        async with one_card(tmp_path, backend, "lost", seen=seen) as node:
            await node.work()
            assert node.status(item)["uuid"] == made.uuid
            patch.undo()
            await node.context.hardware.discover()
            await node.work()
            assert node.status(item)["phase"] == "Idle"
            assert await node.live() == (made,)


@pytest.mark.slow
async def test_an_object_stays_until_the_card_says_that_its_partition_is_gone(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It would be nobody's, and its room lost."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as former:
        item = former.partition("p1")
        await former.work()
        former.delete(item)
        seen = former.items
    with pytest.MonkeyPatch.context() as patch:
        silenced(patch, backend, "devices")
        async with one_card(tmp_path, backend, "lost", seen=seen) as node:
            await node.work()
            assert node.items.keys() == seen.keys()
            patch.undo()
            await node.context.hardware.discover()
            await node.work()
            assert node.items == {}
            assert await node.live() == ()
