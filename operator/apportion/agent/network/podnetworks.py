"""NICs in pods: which interface belongs to which pod, and the journal's steps on its way there and back.

In: prepared claims that ask for network devices, sandboxes that begin and end. Out: interfaces in pods, and back on the host as they
were, after a kill at any step. A container of the claim mounts the interface's file, which is there only while the interface is in the
pod: no container starts without it, also when nobody was there to hear of its sandbox.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from apportion.agent.devices.rdma.away import AwayFolder
from apportion.agent.devices.threads import in_own_thread
from apportion.agent.devices.values import Mount
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.network.inturn import InTurn
from apportion.agent.network.moves import Moves
from apportion.agent.network.nri import Mounting, Sandbox
from apportion.agent.network.steps import Steps
from apportion.agent.rows import ClaimRow, NetworkRow, NetworkStep
from apportion.api.contract import VIRTUAL_FUNCTION
from apportion.api.networkconfig import NetworkConfig
from apportion.cluster.kinds import CLAIMS
from apportion.errors import ApportionError, BrokenInput, NotReady

_log = structlog.get_logger()

INSIDE: Final = "/var/run/apportion/network"
"""Where a container finds the files of its interfaces, one for each device."""
_PATIENCE: Final = 1.0
"""Seconds for a question while the runtime waits; it waits for two, and then goes on without an answer (NRI `request_timeout`)."""


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
        self._missing: deque[str] = deque()
        """What the host has no more of interfaces that came back, until somebody has said so."""
        self._steps = Steps(context, moves, folder, away, self._missing.append)
        self._away = away
        self._node_addresses = node_addresses
        self._connected = connected
        self._in_turn = InTurn()
        self._running: dict[str, str] = {}
        """The network of the sandbox of each pod (UID), as far as was heard."""

    async def offer(self, claim: ClaimRow, wanted: Mapping[str, NetworkConfig], pods: Sequence[str]) -> None:
        """Note that the first of the claim's `pods` gets these devices' interfaces; what is noted already stays.

        The others are refused when their containers begin (`creating`): to refuse all here would be for ever, because a reservation
        ends with its pod only. Raises BrokenInput for a claim that no pod has reserved, or a device that cannot do what is asked;
        NotReady when an interface is not to be had now.
        """
        known = {
            row.device: row for row in self._rows() if (row.claim, row.driver) == (claim.uid, claim.driver)
        }
        fresh = [device for device in claim.devices if device.device in wanted.keys() - known.keys()]
        if not fresh:
            return
        # The pod of a try that noted some of the devices goes on: two pods with one device each would wait for each other.
        pod = next((row.pod for row in known.values() if row.pod in pods), next(iter(pods), ""))
        if not pod:
            raise BrokenInput(
                "a network device is in the network of a pod, and no pod has reserved the claim",
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
            if wanted[device.device].virtual_function is not None and not card.attributes.get(
                VIRTUAL_FUNCTION
            ):
                raise BrokenInput(
                    f"{card.name} is no virtual function", field="opaque.parameters.virtualFunction"
                )
            row = NetworkRow(
                claim=claim.uid,
                driver=claim.driver,
                device=device.device,
                card=card.name,
                pod=pod,
                interface=interface,
                wanted=wanted[device.device].model_dump_json(by_alias=True, exclude_none=True),
            )
            async with self._context.lock(card.name):
                await in_own_thread(self._steps.note, row, node_addresses)

    def mounts(self, claim: str, driver: str) -> dict[str, Mount]:
        """Return what keeps a container from starting before its interface is in the pod, by device."""
        return {
            row.device: Mount(str(self._steps.file(row)), f"{INSIDE}/{row.device}.json", ("ro", "bind"))
            for row in self._rows()
            if (row.claim, row.driver) == (claim, driver)
        }

    async def began(self, sandbox: Sandbox) -> None:
        """Move the interfaces of a pod's claims into its sandbox. Raises NotReady: the sandbox must not start."""
        self._running[sandbox.pod] = sandbox.network
        for row in self._of_pod(sandbox.pod):
            if not sandbox.network:
                raise NotReady(
                    f"Pod {sandbox.key}: spec.hostNetwork: a network device cannot be moved to a pod in the host's network"
                )
            await self._act(row, self._steps.take, self._moves.namespaces.of_pod(sandbox.network))

    async def creating(self, sandbox: Sandbox, mounts: Collection[str]) -> None:
        """Look whose container mounts what. Raises NotReady for one of a pod that has not the interface of its claim.

        Kubelet prepares a claim once: of a pod that reserves it later the agent hears here. It has the interface once the first
        pod is over. A sandbox that began beside the connection to the runtime is not among those that it named: its interface may be on the
        host (containerd keeps a sandbox only after its plugins have heard of it).
        """
        if any(row.pod == sandbox.pod for row in self._mounted(mounts)):
            await self.began(sandbox)
        await self._join(sandbox, mounts)

    async def _join(self, sandbox: Sandbox, mounts: Collection[str]) -> None:
        """Give a pod the interfaces that it mounts and that another pod had. Raises NotReady while that one runs."""
        for row in self._mounted(mounts):
            claim = self._context.journal.claim(row.claim, row.driver)
            if claim is None or row.pod == sandbox.pod:
                continue
            users = await self._users(claim)
            if sandbox.pod not in users:
                continue  # the file was mounted by its path
            if row.pod not in users and row.step is not NetworkStep.WAITING:
                # It was not to be had when the first pod's sandbox ended, or nobody heard of that; there is no unprepare in between.
                await self._act(row, self._follow)
            now = self._now(row)
            if row.pod in users or now is None or now.step is not NetworkStep.WAITING:
                raise NotReady(
                    f"ResourceClaim {claim.key}: its network device {row.device} is in the network of another pod (UID"
                    f" {row.pod}), and cannot be in that of pod {sandbox.key}, too; pods with a ResourceClaimTemplate have a"
                    " claim each"
                )
            await self._act(row, self._steps.pass_on, sandbox.pod)
            await self.began(sandbox)

    async def ending(self, sandbox: Sandbox) -> None:
        """Take the interfaces back from a sandbox that ends; one that cannot be had now comes at unprepare."""
        if self._running.get(sandbox.pod) == sandbox.network:
            del self._running[sandbox.pod]
        for row in self._of_pod(sandbox.pod):
            try:
                await self._act(row, self._steps.leave, sandbox.network)
            except ApportionError as error:
                _log.warning(
                    "network.not_returned", interface=row.interface, pod=sandbox.key, error=str(error)
                )

    async def compare(self, sandboxes: Sequence[Sandbox], containers: Sequence[Mounting] = ()) -> None:
        """Make up for what was missed: `sandboxes` and `containers` are all that there are now.

        Sandboxes that begin and end meanwhile count as they are when the turn of their interface comes.
        """
        self._running = {
            each.pod: each.network
            for each in sandboxes
            if each.network and self._moves.namespaces.of_pod(each.network).exists()
        }
        await self._in_turn.run(self._tried(row, self._follow, "network.not_moved") for row in self._rows())
        for sandbox, mounts in containers:
            try:
                await self._join(sandbox, mounts)
            except ApportionError as error:
                # It began while no agent was there to refuse it.
                text = f"pod {sandbox.key} runs without its network device: {error}"
                await self._context.warn("NetworkDeviceMissing", [text])

    def _follow(self, row: NetworkRow) -> None:
        """Move an interface to where its pod is now, or back to the host."""
        network = self._running.get(row.pod, "")
        there = self._moves.namespaces.of_pod(network) if network else None
        if there is not None and there.exists():
            self._steps.take(row, there)
        else:
            self._steps.return_(row)

    async def release(self, claim: str, driver: str) -> None:
        """Take a claim's interfaces back for good. Raises NotReady; then the claim still has them."""
        for row in self._rows():
            if (row.claim, row.driver) == (claim, driver):
                await self._act(row, self._steps.drop)

    async def recover(self) -> None:
        """Finish what a former agent began, as far as no pod has to be known for it."""
        away = self._away.rows()
        # Read after the files, which another agent may be writing before its rows.
        known = {row.key for row in self._rows()}
        for key, raw in away.items():
            if key not in known:
                # The journal was lost meanwhile.
                try:
                    row = NetworkRow.from_columns(raw)
                except (ValueError, TypeError, KeyError) as error:
                    _log.warning("network.not_recovered", file=key, error=repr(error))
                    continue
                await asyncio.to_thread(self._context.journal.put_network, row)
        claims = {(row.uid, row.driver) for row in self._context.journal.claims()}
        await self._in_turn.run(
            self._tried(row, act, "network.not_recovered")
            for row in self._rows()
            for act in ((self._steps.finish if (row.claim, row.driver) in claims else self._steps.drop),)
        )

    async def _tried(self, row: NetworkRow, act: Callable[..., object], refused: str) -> None:
        try:
            await self._act(row, act)
        except ApportionError as error:
            _log.warning(refused, interface=row.interface, claim=row.claim, error=str(error))

    async def _users(self, claim: ClaimRow) -> frozenset[str]:
        """Return the UIDs of the pods that have reserved a claim. Raises NotReady when that cannot be found out."""
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await self._context.client.get(CLAIMS, claim.name, namespace=claim.namespace)
        except TimeoutError:
            raise NotReady(
                f"ResourceClaim {claim.key}: the API server does not say which pods have it"
            ) from None
        rows = (found.get("status") or {}).get("reservedFor") or ()
        return frozenset(row["uid"] for row in rows)

    def _rows(self) -> tuple[NetworkRow, ...]:
        return self._context.journal.networks()

    def _now(self, row: NetworkRow) -> NetworkRow | None:
        """Return a row as it is now, None when it is gone."""
        return next((each for each in self._rows() if (each.key, each.driver) == (row.key, row.driver)), None)

    def _mounted(self, mounts: Collection[str]) -> list[NetworkRow]:
        return [row for row in self._rows() if str(self._steps.file(row)) in mounts]

    def _of_pod(self, pod: str) -> list[NetworkRow]:
        return [row for row in self._rows() if row.pod == pod]

    async def _act(self, row: NetworkRow, act: Callable[..., object], *more: object) -> None:
        """Act on a row as it is now, while nobody else does, and say on the Node what did not come back."""
        try:
            await self._act_alone(row, act, *more)
        finally:
            missing = [self._missing.popleft() for _ in range(len(self._missing))]
            # The log has it; a runtime that waits for the API server closes the connection.
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._context.warn("NetworkDeviceNotRestored", missing)

    async def _act_alone(self, row: NetworkRow, act: Callable[..., object], *more: object) -> None:
        async with self._context.lock(row.card):
            now = self._now(row)
            if now is not None:
                # A call to the kernel waits for every driver that changes an interface: the journal must not wait with it for a thread.
                acting = in_own_thread(act, now, *more)
                try:
                    await asyncio.shield(acting)
                except OSError as error:
                    # A full /run: who waits gets an answer, and the interfaces of others follow their pods.
                    raise NotReady(f"interface {row.interface}: {error}") from None
                except ApportionError:
                    raise
                except Exception as error:  # noqa: BLE001 - a defect that one interface meets neither keeps others where they are nor ends the agent
                    _log.exception("network.failed", interface=row.interface, claim=row.claim)
                    raise NotReady(f"interface {row.interface}: defect of the agent: {error!r}") from None
                finally:
                    # An agent that is told to end ends the act before it lets go of the card.
                    await asyncio.wait({acting})
