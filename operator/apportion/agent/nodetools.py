"""The commands of an administrator on the node; they need no API and work with or without a running agent.

In: options, a claim from a file. Out: JSON values. `discover` and `partitions` change nothing; `prepare` uses the agent's journal,
locks and files: a running agent sees the claim, leaves its devices alone, and taints them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration

from apportion.agent.backends import backends, generic_devices
from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.names import UnkeptNames
from apportion.agent.journal import Journal, read_journal
from apportion.agent.journal.rows import profiles
from apportion.agent.kubelet.claimdevices import claim_devices
from apportion.agent.kubelet.claims import ClaimRef, allocated_devices
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.lifecycle.begun import BEGUN, BegunCuts
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.manualclaims import claim_of, cut_partition, partition_of, remove_partition
from apportion.agent.network.nodenetworks import NodeNetworks
from apportion.agent.network.podnetworks import PodNetworks
from apportion.agent.rows import BY_HAND, ClaimRow, ClaimStep
from apportion.agent.settings import AgentOptions
from apportion.agent.sharing.setups import Setups
from apportion.agent.tables import card_json, claim_json, device_json, partition_json, shared_json
from apportion.cluster.client import Client
from apportion.dra.claim import Claim
from apportion.errors import ApportionError, BrokenInput, HardwareError

Json = dict[str, Any]


class NodeTools:
    """The commands `apportion node ...` of one node."""

    def __init__(self, options: AgentOptions) -> None:
        self._options = options
        self._generic = generic_devices(options)
        self._drivers = {**options.drivers, **self._generic.drivers}

    async def discover(self) -> Json:
        """Return the cards with everything that backends know of them. Raises HardwareError, BrokenInput."""
        hardware = await self._discovered()
        cards = hardware.cards
        health = await hardware.health()
        return {
            "node": self._options.node,
            "cards": [
                card_json(card, health[card.name], await _warning(hardware, card.name))
                for card in cards.values()
            ],
            "broken": [*self._generic.broken.values()],
        }

    async def partitions(self) -> Json:
        """Return what is cut on the hardware, whose it is, which claims are prepared, and what they have of devices that they share."""
        hardware = await self._discovered()
        live = await hardware.partitions()
        rows, claims, _ = read_journal(self._journal_file)
        return {
            "node": self._options.node,
            "partitions": [partition_json(found, rows, claims) for found in live],
            "claims": [claim_json(row) for row in claims],
            "shared": shared_json(claims, hardware.cards),
        }

    async def prepare(self, raw: Json) -> Json:
        """Prepare an allocated claim as kubelet would have it done. Raises ApportionError; nothing of it stays then."""
        claim = claim_of(raw)
        # An agent that runs leaves a claim alone that is not prepared yet, though the API knows nothing of it.
        async with self._context() as context, context.lock(BY_HAND):
            before = {row.driver for row in context.journal.claims() if row.uid == claim.uid}
            try:
                prepared = [
                    row
                    for driver, kind in self._drivers_of(claim)
                    for row in await self._one(context, claim, driver, kind)
                ]
            except ApportionError:
                # Kubelet does not know of this claim and would never unprepare it.
                if not before:
                    await self._free(context, claim.uid)
                raise
        return {"claim": claim.key, "uid": claim.uid, "devices": prepared}

    async def unprepare(self, uid: str) -> Json:
        """Free a prepared claim's devices; partitions that `prepare` cut for it are removed. Raises ApportionError."""
        async with self._context() as context:
            return {"uid": uid, "released": await self._free(context, uid)}

    async def _one(self, context: AgentContext, claim: Claim, driver: str, kind: str) -> list[Json]:
        """Prepare what one driver has of a claim."""
        ref = ClaimRef(claim.namespace, claim.name, claim.uid)
        results = allocated_devices(claim, ref, driver, self._options.node)
        devices = claim_devices(ref, results, context.hardware.cards, kind)
        partitions = [partition_of(context, driver, claim, device) for device in devices]
        bound = tuple(
            replace(device, partition=partition.metadata.uid if partition is not None else "")
            for device, partition in zip(devices, partitions, strict=True)
        )
        preparer = self._preparer(context, driver, kind, claim)
        # The claim's row comes first: a running agent then leaves its partitions alone.
        if context.journal.claim(claim.uid, driver) is None:
            row = ClaimRow(claim.uid, driver, claim.namespace, claim.name, ClaimStep.PREPARING, bound)
            await preparer.begin(claim, results, row)
        for partition in partitions:
            if partition is not None and partition.metadata.uid.startswith(BY_HAND):
                await cut_partition(context, partition)
        prepared = await preparer.prepare(ref)
        file = str(CdiFolder(self._options.cdi_dir).path(driver, claim.uid))
        return [{**device_json(device), "driver": driver, "file": file} for device in prepared]

    async def _free(self, context: AgentContext, uid: str) -> list[str]:
        rows = [row for row in context.journal.claims() if row.uid == uid]
        kinds = {driver: kind for kind, driver in self._drivers.items()}
        for row in rows:
            ref = ClaimRef(row.namespace, row.name, row.uid)
            kind = kinds.get(row.driver, row.driver)
            await self._preparer(context, row.driver, kind, None).unprepare(ref)
            for device in row.devices:
                if device.by_hand:
                    await remove_partition(context, device)
        return [*dict.fromkeys(device.device for row in rows for device in row.devices)]

    async def recover(self, name: str) -> Json:
        """Clear the sticky errors of a card and its partitions, after a reset for example. Raises BrokenInput for an unknown card."""
        hardware = await self._discovered()
        cards = hardware.cards
        if name not in cards:
            raise BrokenInput(f"this node has no card {name}; it has {', '.join(cards) or 'none'}")
        reason = self._options.sticky_errors().all().get(cards[name].uuid, "")
        marked = self._options.sticky_errors().remove(cards[name].uuid)
        for live in await hardware.partitions():
            if live.card == name and self._options.sticky_errors().remove(live.uuid):
                marked, reason = (
                    True,
                    reason or f"a contained error of {live.profile} at {live.placement.start}",
                )
        return {"card": name, "uuid": cards[name].uuid, "marked": marked, "reason": reason}

    async def forget(self, name: str) -> Json:
        """Forget a card that has left for good, with the partitions that were on it, and its parts.

        Raises BrokenInput for a name that no such card has, NotReady while a claim has a device of the card prepared.
        """
        async with self._context() as context:
            there = {card.name: card.uuid for card in context.hardware.cards.values()}
            return {"card": name, **asdict(context.journal.forget_card(name, there))}

    @asynccontextmanager
    async def _context(self) -> AsyncIterator[AgentContext]:
        options = self._options
        hardware = await self._discovered()
        with closing(Journal(self._journal_file, options.read_boot_id())) as journal:
            # Nothing below asks the API; the parts only want to have a client.
            async with Client(Configuration(), patience=1.0, manager="apportion-node") as client:
                yield AgentContext(
                    client,
                    hardware,
                    journal,
                    DesiredPartitions(),
                    locks_dir=options.state_dir / "locks",
                    begun=BegunCuts(options.run_dir / BEGUN),
                    timeouts=options.timeouts,
                    at=options.at,
                )

    @property
    def _journal_file(self) -> Path:
        return self._options.state_dir / "journal.db"

    async def _discovered(self) -> Hardware:
        """Return the hardware with the names that the agent gave; only the agent keeps new ones, because it knows the slices.

        Raises HardwareError for a driver that cannot be asked, BrokenInput.
        """
        rows, _, names = read_journal(self._journal_file)
        kept = UnkeptNames(names, partial(profiles, tuple(rows.values())))
        hardware = Hardware(backends(self._options, kept))
        await hardware.discover()
        for error in hardware.failures:
            raise error
        return hardware

    def _drivers_of(self, claim: Claim) -> list[tuple[str, str]]:
        named = {result.device.driver for result in claim.allocation.results} if claim.allocation else set()
        found = [(driver, kind) for kind, driver in self._drivers.items() if driver in named]
        if not found:
            raise BrokenInput(
                f"ResourceClaim {claim.key} has no device of {', '.join(self._drivers.values())}",
                field="status.allocation",
            )
        return found

    def _preparer(self, context: AgentContext, driver: str, kind: str, claim: Claim | None) -> Preparer:
        async def written(_: ClaimRef) -> Claim | None:
            return claim

        options, cdi = self._options, CdiFolder(self._options.cdi_dir)
        return Preparer(
            context,
            cdi,
            MetadataFolder(options.plugins_dir / driver, driver, options.rank_tables(driver)),
            Setups(context, options.state_dir, options.run_dir, cdi),
            driver=driver,
            kind=kind,
            node=options.node,
            # There are no workers here: the caller cut the partition before.
            try_now=lambda _card, _partition: None,
            networks=self._networks(context),
            claims=written,
            timeout=1.0,
        )

    def _networks(self, context: AgentContext) -> PodNetworks:
        """Return what takes network devices back; to be given one a claim needs a pod, which this has not."""
        options = self._options
        return NodeNetworks(
            context, options.node, options.host_root, options.run_dir, socket=options.nri_socket
        ).pods


async def _warning(hardware: Hardware, card: str) -> str:
    try:
        return (await hardware.edits(card)).warning
    except HardwareError as error:
        return str(error)
