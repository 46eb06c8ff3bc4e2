"""NICs in pods: which interface belongs to which pod, and the journal's steps on its way there and back.

In: prepared claims that ask for network devices, sandboxes that begin and end. Out: interfaces in pods, and back on the host as they
were, after a kill at any step. A container of the claim mounts the interface's file, which is there only while the interface is in the
pod: no container starts without it, also when nobody was there to hear of its sandbox.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import structlog

from apportion.agent import files
from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.devices.values import Mount
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.network.hostneeds import host_needs
from apportion.agent.network.interface import Interface
from apportion.agent.network.moves import Moves, inside
from apportion.agent.network.nri import Sandbox
from apportion.agent.rows import ClaimRow, ClaimStep, NetworkRow, NetworkStep
from apportion.api.networkconfig import NetworkConfig
from apportion.errors import ApportionError, BrokenInput, NotReady

_log = structlog.get_logger()

INSIDE: Final = "/var/run/apportion/network"
"""Where a container finds the files of its interfaces, one for each device."""


class PodNetworks:
    """Those of one node."""

    def __init__(
        self,
        context: AgentContext,
        moves: Moves,
        folder: Path,
        away: AwayFolder,
        *,
        node_addresses: Callable[[], Awaitable[Collection[str]]],
        connected: Callable[[], bool],
    ) -> None:
        """`folder` is where the interfaces' files are, under the same path on the host; a reboot empties it.

        `away` gets the devices whose interface is not on the host.
        `node_addresses` returns those of the Node object, `connected` whether sandboxes of now are heard of.
        """
        self._context = context
        self._moves = moves
        self._folder = folder
        self._away = away
        self._node_addresses = node_addresses
        self._connected = connected

    async def offer(self, claim: ClaimRow, wanted: Mapping[str, NetworkConfig], pods: Sequence[str]) -> None:
        """Note that the claim's pod gets these devices' interfaces; what is noted already stays.

        Raises BrokenInput for a claim that no pod can be served with, NotReady when an interface is not to be had now.
        """
        known = {row.device for row in self._rows() if (row.claim, row.driver) == (claim.uid, claim.driver)}
        fresh = [device for device in claim.devices if device.device in wanted.keys() - known]
        if not fresh:
            return
        if len(pods) != 1:
            raise BrokenInput(
                f"a network device is in the network of one pod, and {len(pods)} have reserved the claim",
                field="status.reservedFor",
            )
        if not self._connected():
            raise NotReady(
                "the container runtime is not connected (NRI), so nobody would say when the pod's network is there;"
                " containerd before 2.0 has it switched off"
            )
        node_addresses = await self._node_addresses()
        for device in fresh:
            card = self._context.hardware.cards[device.card]
            interface = str(card.attributes.get("interface", ""))
            if not interface:
                raise NotReady(f"{card.name} has no network interface")
            row = NetworkRow(
                claim=claim.uid,
                driver=claim.driver,
                device=device.device,
                card=card.name,
                pod=pods[0],
                interface=interface,
                wanted=wanted[device.device].model_dump_json(by_alias=True, exclude_none=True),
            )
            async with self._context.lock(card.name):
                await asyncio.to_thread(self._note, row, frozenset(node_addresses))

    def mounts(self, claim: str, driver: str) -> dict[str, Mount]:
        """Return what keeps a container from starting before its interface is in the pod, by device."""
        return {
            row.device: Mount(str(self._file(row)), f"{INSIDE}/{row.device}.json", ("ro", "bind"))
            for row in self._rows()
            if (row.claim, row.driver) == (claim, driver)
        }

    async def began(self, sandbox: Sandbox) -> None:
        """Move the interfaces of a pod's claims into its sandbox. Raises NotReady: the sandbox must not start."""
        for row in self._of_pod(sandbox.pod):
            if not sandbox.network:
                raise NotReady(
                    f"Pod {sandbox.key}: spec.hostNetwork: a network device cannot be moved to a pod in the host's network"
                )
            await self._act(row, self._take, self._moves.namespaces.of_pod(sandbox.network))

    async def ending(self, sandbox: Sandbox) -> None:
        """Take the interfaces back from a sandbox that ends; one that cannot be had now comes at unprepare."""
        for row in self._of_pod(sandbox.pod):
            try:
                await self._act(row, self._leave, sandbox.network)
            except ApportionError as error:
                _log.warning(
                    "network.not_returned", interface=row.interface, pod=sandbox.key, error=str(error)
                )

    async def compare(self, sandboxes: Sequence[Sandbox]) -> None:
        """Make up for what was missed: `sandboxes` are all that there are now."""
        for row in self._rows():
            here = [
                self._moves.namespaces.of_pod(each.network)
                for each in sandboxes
                if each.pod == row.pod and each.network
            ]
            there = [path for path in here if path.exists()]
            try:
                if there:
                    await self._act(row, self._take, there[-1])
                else:
                    await self._act(row, self._return)
            except ApportionError as error:
                _log.warning("network.not_moved", interface=row.interface, claim=row.claim, error=str(error))

    async def release(self, claim: str, driver: str) -> None:
        """Take a claim's interfaces back for good. Raises NotReady; then the claim still has them."""
        for row in self._rows():
            if (row.claim, row.driver) == (claim, driver):
                await self._act(row, self._drop)

    async def recover(self) -> None:
        """Finish what a former agent began, as far as no pod has to be known for it."""
        known = {row.key: row for row in self._rows()}
        for key, raw in self._away.rows().items():
            if key not in known:
                # The journal was lost meanwhile.
                row = NetworkRow.from_columns(raw)
                await asyncio.to_thread(self._context.journal.put_network, row)
            elif known[key].step is NetworkStep.WAITING:
                self._away.drop(key)
        claims = {(row.uid, row.driver) for row in self._context.journal.claims()}
        for row in self._rows():
            act = self._finish if (row.claim, row.driver) in claims else self._drop
            try:
                await self._act(row, act)
            except ApportionError as error:
                _log.warning("network.not_recovered", interface=row.interface, error=str(error))

    def _rows(self) -> tuple[NetworkRow, ...]:
        return self._context.journal.networks()

    def _of_pod(self, pod: str) -> list[NetworkRow]:
        return [row for row in self._rows() if row.pod == pod]

    async def _act(self, row: NetworkRow, act: Callable[..., object], *more: object) -> None:
        """Act on a row as it is now, while nobody else does."""
        async with self._context.lock(row.card):
            now = next(
                (each for each in self._rows() if each.key == row.key and each.driver == row.driver), None
            )
            if now is not None:
                await asyncio.to_thread(act, now, *more)

    # --- in a thread, with the card's lock ------------------------------------------------------------------

    def _note(self, row: NetworkRow, node_addresses: frozenset[str]) -> None:
        needs = host_needs(self._moves.namespaces.host, node_addresses)
        if row.interface not in needs:
            raise NotReady(f"interface {row.interface} is not on the host")
        why = needs[row.interface]
        if why:
            raise NotReady(f"{row.card}: its interface {row.interface} stays on the host: {why}")
        self._file(row).unlink(missing_ok=True)
        self._step(row, NetworkStep.WAITING)

    def _take(self, row: NetworkRow, source: Path) -> None:
        claim = self._context.journal.claim(row.claim, row.driver)
        if claim is None or claim.step is not ClaimStep.PREPARED:
            raise NotReady(f"interface {row.interface}: its claim {row.claim} is not prepared")
        if row.step is not NetworkStep.WAITING and not self._is_in(row, source):
            # The pod has another sandbox than before.
            row = self._return(row)
        if row.step is NetworkStep.WAITING:
            before = self._moves.read(row.interface)
            name = str(self._context.hardware.cards[row.card].attributes.get("rdmaDevice", ""))
            device = self._moves.device(name)
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
                self._return(row)
                raise
            self._step(row, NetworkStep.MOVED)
            _log.info("network.moved", interface=row.interface, name=found.name, claim=row.claim, pod=row.pod)
        files.write(self._file(row), _description(found), sync=False)
        self._context.at("network.shown")

    def _is_in(self, row: NetworkRow, source: Path) -> bool:
        namespaces = self._moves.namespaces
        try:
            return namespaces.is_pinned(row.key) and namespaces.same(namespaces.pinned(row.key), source)
        except OSError:
            return False

    def _leave(self, row: NetworkRow, network: str) -> None:
        """Take it back from this sandbox; an earlier sandbox of the pod, which ends once more, has nothing of it."""
        if network and self._is_in(row, self._moves.namespaces.of_pod(network)):
            self._return(row)

    def _return(self, row: NetworkRow) -> NetworkRow:
        """Bring it back to the host, where it waits."""
        if row.step is NetworkStep.WAITING:
            return row
        self._bring(row)
        row = self._step(row, NetworkStep.WAITING)
        self._away.drop(row.key)
        return row

    def _drop(self, row: NetworkRow) -> None:
        if row.step is not NetworkStep.WAITING:
            self._bring(row)
        self._file(row).unlink(missing_ok=True)
        self._context.journal.drop_network(row)
        self._away.drop(row.key)
        self._context.at("network.gone")

    def _finish(self, row: NetworkRow) -> None:
        if row.step is NetworkStep.RETURNING or (
            row.step is not NetworkStep.WAITING
            and not self._moves.namespaces.is_pinned(row.key)
            # Its namespace has ended, and the kernel gave it back; if not, it may be in a pod that runs.
            and self._moves.on_host(row)
        ):
            self._return(row)

    def _bring(self, row: NetworkRow) -> None:
        self._file(row).unlink(missing_ok=True)
        row = self._step(row, NetworkStep.RETURNING)
        if self._moves.bring_back(row):
            _log.info("network.returned", interface=row.interface, claim=row.claim)
        else:
            _log.warning("network.lost", interface=row.interface, claim=row.claim)

    def _step(self, row: NetworkRow, step: NetworkStep) -> NetworkRow:
        row = replace(row, step=step)
        self._context.journal.put_network(row)
        self._context.at(f"network.{step.lower()}")
        return row

    def _file(self, row: NetworkRow) -> Path:
        return self._folder / f"{row.key}.json"


def _description(found: Interface) -> str:
    """Return what a container may know of its interface."""
    addresses = [f"{each.address}/{each.prefix}" for each in found.addresses]
    about = {"interface": found.name, "hardwareAddress": found.mac, "mtu": found.mtu, "addresses": addresses}
    return f"{json.dumps(about)}\n"
