"""Steps: the journal's steps on the way of one interface into a pod and back.

In: a row of the journal. Out: its next row, and the interface where that says. Each step is written before the act that it names. The
methods block, and are called while nobody else has the row's card.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from pathlib import Path

import structlog

from apportion.agent import files
from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.network.hostneeds import host_needs
from apportion.agent.network.interface import Interface
from apportion.agent.network.moves import Moves, inside
from apportion.agent.rows import ClaimStep, NetworkRow, NetworkStep
from apportion.errors import NotReady

_log = structlog.get_logger()


class Steps:
    """Those of one node. Each raises NotReady."""

    def __init__(
        self,
        context: AgentContext,
        moves: Moves,
        folder: Path,
        away: AwayFolder,
        missing: Callable[[str], None],
    ) -> None:
        """`folder` is where the interfaces' files are, `away` gets the devices whose interface is not on the host.

        `missing` is told what the host has no more of an interface that came back.
        """
        self._missing = missing
        self._context = context
        self._moves = moves
        self._folder = folder
        self._away = away

    def note(self, row: NetworkRow, node_addresses: Collection[str]) -> None:
        """Write a claim's first row, if the node does not need the interface itself."""
        needs = host_needs(self._moves.namespaces.host, node_addresses)
        if row.interface not in needs:
            raise NotReady(f"interface {row.interface} is not on the host")
        why = needs[row.interface]
        if why:
            raise NotReady(f"{row.card}: its interface {row.interface} stays on the host: {why}")
        self.file(row).unlink(missing_ok=True)
        self._step(row, NetworkStep.WAITING)

    def pass_on(self, row: NetworkRow, pod: str) -> None:
        """Write down that another pod has the claim now; the interface has to be on the host."""
        if row.step is not NetworkStep.WAITING:
            raise NotReady(f"interface {row.interface} is in another pod")
        self._step(replace(row, pod=pod), NetworkStep.WAITING)
        self._context.at("network.passed_on")

    def take(self, row: NetworkRow, source: Path) -> None:
        """Move it into the namespace of `source`, where it is shown to the claim's containers."""
        claim = self._context.journal.claim(row.claim, row.driver)
        if claim is None or claim.step is not ClaimStep.PREPARED:
            raise NotReady(f"interface {row.interface}: its claim {row.claim} is not prepared")
        if row.step is not NetworkStep.WAITING and not self._is_in(row, source):
            # The pod has another sandbox than before.
            row = self.return_(row)
        if row.step is NetworkStep.WAITING:
            card = self._context.hardware.cards.get(row.card)
            if card is None:
                raise NotReady(f"{row.card} is not on this node")
            name = str(card.attributes.get("rdmaDevice", ""))
            device = self._moves.device(name)
            before = self._moves.read(row, device)
            _check_place(row, card.location.pci_bus_id, device.pci_bus_id, before.parent)
            if row.interface not in device.interfaces:
                raise NotReady(
                    f"interface {row.interface} is not of {row.card}, and has its interface's name"
                )
            row = replace(row, before=before.to_json(), nic=name if self._moves.moves_alone() else "")
            self._away.put(row.key, device, asdict(replace(row, step=NetworkStep.MOVING)))
            row = self._step(row, NetworkStep.MOVING)
        found = inside(row)
        # One that has arrived is the pod's: what it has changed stays, also when another agent looks.
        if row.step is not NetworkStep.MOVED:
            try:
                self._moves.take(row, source, found)
            except NotReady:
                # Kubelet makes another sandbox; what is wrong may be put right on the host meanwhile.
                self.return_(row)
                raise
            self._step(row, NetworkStep.MOVED)
            _log.info("network.moved", interface=row.interface, name=found.name, claim=row.claim, pod=row.pod)
        files.write(self.file(row), _description(found), sync=False)
        self._context.at("network.shown")

    def _is_in(self, row: NetworkRow, source: Path) -> bool:
        namespaces = self._moves.namespaces
        try:
            return namespaces.is_pinned(row.key) and namespaces.same(namespaces.pinned(row.key), source)
        except OSError:
            return False

    def leave(self, row: NetworkRow, network: str) -> None:
        """Take it back from this sandbox; an earlier sandbox of the pod, which ends once more, has nothing of it."""
        if network and self._is_in(row, self._moves.namespaces.of_pod(network)):
            self.return_(row)

    def return_(self, row: NetworkRow) -> NetworkRow:
        """Bring it back to the host, where it waits."""
        if row.step is NetworkStep.WAITING:
            return row
        self._bring(row)
        row = self._step(row, NetworkStep.WAITING)
        self._away.drop(row.key)
        return row

    def drop(self, row: NetworkRow) -> None:
        """Bring it back to the host for good."""
        if row.step is not NetworkStep.WAITING:
            self._bring(row)
        self.file(row).unlink(missing_ok=True)
        self._context.journal.drop_network(row)
        self._away.drop(row.key)
        self._context.at("network.gone")

    def finish(self, row: NetworkRow) -> None:
        """Bring it back if a former agent had begun that, or the kernel did; of one that is back nothing is left."""
        if row.step is NetworkStep.WAITING:
            self._away.drop(row.key)
        elif row.step is NetworkStep.RETURNING or (
            not self._moves.namespaces.is_pinned(row.key)
            # Its namespace has ended, and the kernel gave it back; if not, it may be in a pod that runs.
            and self._moves.on_host(row)
        ):
            self.return_(row)

    def _bring(self, row: NetworkRow) -> None:
        self.file(row).unlink(missing_ok=True)
        row = self._step(row, NetworkStep.RETURNING)
        missing = self._moves.bring_back(row)
        _log.info("network.returned", interface=row.interface, claim=row.claim)
        for text in missing:
            _log.warning("network.not_restored", claim=row.claim, missing=text)
            self._missing(text)

    def _step(self, row: NetworkRow, step: NetworkStep) -> NetworkRow:
        row = replace(row, step=step)
        self._context.journal.put_network(row)
        self._context.at(f"network.{step.lower()}")
        return row

    def file(self, row: NetworkRow) -> Path:
        """Return where the file is that the claim's containers mount."""
        return self._folder / f"{row.key}.json"


def _check_place(row: NetworkRow, known: str, *now: str) -> None:
    """Raise NotReady when the card's names belong to another PCI device by now: drivers that are loaded anew give them in another order."""
    others = {place for place in now if known and place not in ("", known)}
    if others:
        raise NotReady(
            f"{row.card} is at {known}, and what it and its interface {row.interface} were called is at {', '.join(others)} now;"
            " an agent that starts anew knows them by their new names"
        )


def _description(found: Interface) -> str:
    """Return what a container may know of its interface."""
    addresses = [f"{each.address}/{each.prefix}" for each in found.addresses]
    about = {"interface": found.name, "hardwareAddress": found.mac, "mtu": found.mtu, "addresses": addresses}
    return f"{json.dumps(about)}\n"
