"""A second device comes to a PCI device whose first one is in use: both have other names then, and the first is not given away twice."""

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from apportion.agent.devices.values import Card, Health
from apportion.agent.journal import Journal
from apportion.agent.kubelet.fit import check_fit
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.errors import NotReady
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, FPGA, SECOND, backend_of
from tests.agent.generic.test_generic_devices import FPGA_REGION, regions


def of(card: Card, *, admin: bool = False) -> ClaimRow:
    """Return a claim that has a card."""
    device = ClaimDevice(
        card.name, card.name, "n", ("r0",), f"x={card.name}", card_uuid=card.uuid, admin=admin
    )
    return ClaimRow(f"{card.name}-{admin}", FPGA, "team", card.name, ClaimStep.PREPARING, (device,))


def test_a_device_that_has_another_name_by_now_is_prepared_for_nobody_else(
    tmp_path: Path, host: FpgaHost
) -> None:
    """Under its former name it is lost, and its pod told to go; its containers may run for a while."""
    regions(host.root, host.folder(FIRST), "region0")
    backend = backend_of(host.root, **FPGA_REGION, uuid=None)
    (before,) = backend.devices()
    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        journal.reserve(of(before))
        regions(host.root, host.folder(FIRST), "region1")
        regions(host.root, host.folder(SECOND), "region2")
        cards = {card.name: card for card in backend.devices()}
        assert backend.health()[before.name] is Health.LOST
        new = [card for card in cards.values() if card.uuid.startswith(f"{before.uuid}/")]
        assert len(new) == 2
        for card in new:
            with pytest.raises(NotReady, match=f"held by ResourceClaim team/{before.name}"):
                journal.reserve(of(card), partial(check_fit, of(card), cards=cards))
            watching = of(card, admin=True)
            journal.reserve(watching, partial(check_fit, watching, cards=cards))
        (other,) = (card for card in cards.values() if SECOND in card.uuid)
        journal.reserve(of(other), partial(check_fit, of(other), cards=cards))
