"""A card does not answer when what a claim had set up is taken back: its pod ends all the same, and the card gets its defaults once it answers."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.sharing import TimeSlice
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing.setups import Setups
from apportion.errors import Lost
from testbed.eventually import eventually
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend


def setups_of(folder: Path, node: OneCard) -> Setups:
    """Return the node's setups."""
    return Setups(node.context, folder, folder / "run", CdiFolder(folder / "cdi"))


def left(folder: Path) -> dict[str, Any]:
    """Return what is set up on the simulated hardware."""
    (file,) = folder.glob("*.state.json")
    found: dict[str, Any] = json.loads(file.read_text()).get("sharing", {})
    return found


def rows(node: OneCard) -> list[SharingRow]:
    """Return a time slice and the use of a control daemon by one claim each."""
    uuid = node.context.hardware.cards["gpu-0"].uuid
    return [
        SharingRow("a", GPU, (SharedDevice("gpu-0", uuid, uuid, TimeSlice.LONG),)),
        SharingRow("a", GPU, (SharedDevice("gpu-0", uuid, uuid, mps=True),)),
    ]


@pytest.mark.parametrize("kind", [0, 1], ids=["time slice", "daemon"])
async def test_a_card_that_is_silent_for_a_while_gets_its_defaults_when_it_answers(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    """The next claim would compute in turns that another one asked for, or be the only process that may."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        setups, row = setups_of(tmp_path, node), rows(node)[kind]
        await setups.set_up(row, 5.0)
        hangs, health = threading.Event(), backend.health
        monkeypatch.setattr(backend, "health", lambda *cards: health(*cards) if hangs.wait(5) else {})
        node.context.hardware._patience = 0.05
        await node.context.hardware.health()
        await setups.end("a", GPU)
        assert left(tmp_path) != {}
        await setups.keep()
        assert setups.failing == {}
        hangs.set()

        async def kept() -> tuple[SharingRow, ...]:
            await setups.keep()
            return node.context.journal.sharing()

        assert await eventually(kept, lambda found: found == ()) == ()
        assert left(tmp_path) == {}


async def test_a_claim_is_not_set_up_otherwise_before_the_former_setup_is_taken_back(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its row says what is to be taken back, and has room for one setup; the card may be one that has not answered yet."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        setups, (first, second) = setups_of(tmp_path, node), rows(node)
        await setups.set_up(first, 5.0)
        known = node.context.hardware.cards
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node.context.hardware, "cards", {})
            patch.setattr(Hardware, "unknown", ("a card did not answer when cards were looked for",))
            with pytest.raises(Lost, match="claim a: a card"):
                await setups.set_up(second, 5.0)
        assert node.context.hardware.cards == known
        await setups.set_up(second, 5.0)
        assert "timeSlices" not in left(tmp_path)


async def test_a_card_that_has_left_has_nothing_to_take_back(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its row would stay for ever, and its name in the log."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        setups, row = setups_of(tmp_path, node), rows(node)[0]
        await setups.set_up(row, 5.0)
        node.context.hardware.cards = {}
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()


async def test_an_orphaned_daemon_leaves_a_card_as_it_is_that_another_claim_has_set_up(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A daemon for more cards than the former one has another name, and its cards are for its server alone."""
    backend = make_backend(cards=[H100 | {"count": 2}])
    async with one_card(tmp_path, backend) as node:
        setups = setups_of(tmp_path, node)
        first, second = (
            SharedDevice(card.name, card.uuid, card.uuid, mps=True)
            for card in node.context.hardware.cards.values()
        )
        await setups.set_up(SharingRow("a", GPU, (first,)), 5.0)
        orphan = node.context.journal.sharing()[0].daemon
        node.context.journal.drop_sharing("a", GPU)
        (tmp_path / "run/setups").joinpath(f"{GPU}_a.json").unlink()
        node.prepared("b", "gpu-0")
        await setups.set_up(SharingRow("b", GPU, (first, second)), 5.0)
        await setups.keep()
        assert orphan not in left(tmp_path)["daemons"]
        assert set(left(tmp_path)["exclusive"]) == {"gpu-0", "gpu-1"}
