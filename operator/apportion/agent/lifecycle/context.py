"""What workers and prepare calls share: client, hardware, journal, Partitions, clock and locks.

In: the parts. Out: one object to pass on, with the locks of the cards.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import LivePartition, PartitionPlace
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.begun import BegunCuts
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions, is_deleting
from apportion.agent.ownnode import OwnNode
from apportion.agent.rows import ClaimRow, PartitionRow
from apportion.agent.slices.shares import PublishedSharing
from apportion.agent.wakeup import Wakeup
from apportion.api.partition import Partition
from apportion.cluster.client import Client
from apportion.errors import NotReady

_LOOK = 0.02
"""Seconds between two tries while another process has a card's lock; waiting in a thread would hold up others' threads."""


def utc_now() -> str:
    """Return the time as the API writes it (RFC 3339, seconds)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _not_shared() -> None:
    return None


async def _say_nothing(_reason: str, _texts: Iterable[str]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long workers wait for what others have to do first. Seconds."""

    room: float = 10.0
    """For room on a card from which no partition is about to be removed, before the phase is Failed."""
    idle: float = 60.0
    """The same, while an idle partition is on the card, which the operator may delete to make room."""
    removal: float = 60.0
    """For the room of a partition that is being removed, from when the driver first refused to."""
    first_retry: float = 0.1
    last_retry: float = 2.0
    """Between tries while waiting; doubled from first to last."""
    shown: float = 1.0
    """Before the status of a partition that is being cut says so: most are cut before, and one status is enough."""
    late: float = 30.0
    """For a driver that timed out to make a partition after all, before it is taken for never made."""
    failed: float = 15.0
    """Between tries of a Failed partition; a prepare call tries at once."""
    locked: float = 20.0
    """For a card that another process has locked: kubelet gives up after 45, and nobody waits for ever for another process's driver."""


@dataclass(slots=True)
class AgentContext:
    """The parts of one agent."""

    client: Client
    hardware: Hardware
    journal: Journal
    desired: DesiredPartitions
    locks_dir: Path
    """Where the cards' lock files are; two agents of a rolling update share it."""
    begun: BegunCuts
    timeouts: Timeouts = field(default_factory=Timeouts)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], str] = utc_now
    at: Callable[[str], None] = lambda _: None
    """Called at every boundary between two steps; crash tests end the process in it."""
    partition_changed: Wakeup = field(default_factory=Wakeup)
    """Woken after every round of a worker: prepare calls wait for it."""
    adopt_foreign: bool = False
    """Whether a foreign partition at the place of a layout's becomes the layout's (`--foreign adopt`)."""
    unsupported: set[str] = field(default_factory=set)
    """Devices that the driver refused as unsupported."""
    stuck: set[str] = field(default_factory=set)
    """Partitions (UIDs) that are to go and that the driver has refused to remove for as long as a cut waits for their room."""
    slices_changed: Callable[[], None] = lambda: None
    """Called when slices may have to change."""
    warn: Callable[[str, Iterable[str]], Awaitable[None]] = _say_nothing
    """Writes Events on the Node: their reason, and a text for each."""
    node: OwnNode | None = None
    sharing: Callable[[], Awaitable[PublishedSharing | None]] = _not_shared
    """Returns how the node shares its GPUs; None: not at all."""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _kept: dict[str, int] = field(default_factory=dict)
    """Locked files of cards that nobody here has and that a call still changes."""

    @asynccontextmanager
    async def lock(self, card: str) -> AsyncIterator[None]:
        """Hold the card's lock, so that no claim is prepared with what a worker is removing.

        It excludes the other agent of a rolling update too. The file's lock is advisory (flock) and dies with its process, so that a
        killed agent never leaves one behind. It stays with this process as long as a driver call changes the card, also when who waited for
        that gave up: another agent would look at the card before the call has done what it does, and forget whose that is. Raises NotReady
        where it cannot be made (a full disk), and while another process keeps it.
        """
        async with self._locks.setdefault(card, asyncio.Lock()):
            kept = self._kept.pop(card, None)
            handle = kept if kept is not None else await self._locked(card)
            try:
                yield
            finally:
                self._kept[card] = handle
                for call in self.hardware.changes(card):
                    call.add_done_callback(lambda _: self._let_go(card))
                self._let_go(card)

    async def _locked(self, card: str) -> int:
        """Return a locked file. Raises NotReady."""
        path = self.locks_dir / f"{card}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotReady(f"{card} cannot be locked: {error}") from None
        try:
            # The other holder is another process, so there is no event to wait for.
            async with asyncio.timeout(self.timeouts.locked):
                while not _taken(handle):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK)
        except BaseException as error:
            os.close(handle)
            if isinstance(error, TimeoutError):
                raise NotReady(f"{card} is locked by another agent, whose driver call is not back") from None
            raise
        return handle

    def _let_go(self, card: str) -> None:
        """Give a card's file to other processes, unless a call still changes the card or somebody here has the lock."""
        if card in self._kept and not self.hardware.changes(card):
            os.close(self._kept.pop(card))

    async def live(self, card: str) -> dict[PartitionPlace, LivePartition]:
        """Return what exists on a card now, by place; raises HardwareError when the card cannot be asked."""
        return _by_place(await self.hardware.partitions_of(card), self.journal.partitions_of(card))

    async def looked(self) -> tuple[tuple[LivePartition, ...], dict[str, PartitionRow]]:
        """Return what exists on all cards, without what was removed during the look, and the rows to compare it with.

        A look takes seconds where a card is slow. What others lost meanwhile has no row any more, and would pass for a person's partition.
        """
        before = self.journal.partitions()
        live = await self.hardware.partitions()
        rows = self.journal.partitions()
        gone = _marks(before) - _marks(rows)
        removed = [row for row in before.values() if (row.place, row.uuid) in gone]
        named = _by_place(live, rows.values()).values()
        return tuple(found for found in named if not any(_was(row, found) for row in removed)), rows

    def may_come(self, uid: str) -> bool:
        """Say whether a driver that timed out may make the partition of this UID yet."""
        return self.begun.may_come(uid, self.clock(), self.timeouts.late)

    def is_anothers(self, uid: str, found: LivePartition) -> bool:
        """Say whether a partition was made for another Partition than this UID's, as its row says."""
        rows = self.journal.partitions_of(found.card)
        same = (row for row in rows if (row.place, row.uuid) == (found.place, found.uuid) and row.uuid)
        return any(row.uid != uid for row in same)

    def partition_for(self, device: str, claim: str) -> Partition | None:
        """Return the Partition by which a claim (UID) has a device, None where there is none.

        Of several for one device it is the claim's own, else one that is not being deleted, else one that was cut: it has a row, or after
        the journal was lost a UUID in its status.
        """
        rows = self.journal.partitions()

        def order(partition: Partition) -> tuple[bool, bool, bool]:
            holder, uid = partition.spec.holder, partition.metadata.uid
            own = holder is not None and holder.uid == claim
            return not own, is_deleting(partition), uid not in rows and not partition.status.uuid

        return min(self.desired.of_device(device), key=order, default=None)

    @property
    def offered(self) -> frozenset[str]:
        """The extended resources that device plugins offer on the node, as far as that is known."""
        return self.node.offered if self.node is not None else frozenset()

    def users(self, uid: str) -> tuple[ClaimRow, ...]:
        """Return the claims that have this Partition UID prepared, or are preparing it."""
        return tuple(
            row for row in self.journal.claims() if any(device.partition == uid for device in row.devices)
        )

    def left(self) -> frozenset[str]:
        """Return the Partitions (UIDs) that claims have prepared and that nobody holds: their owner's claim has ended, and somebody looks at them."""
        uids = {device.partition for row in self.journal.claims() for device in row.devices}
        found = ((uid, self.desired.get(uid)) for uid in uids)
        return frozenset(uid for uid, each in found if each is not None and each.spec.holder is None)

    def note(self, marked: set[str], name: str, *, holds: bool) -> None:
        """Have the slices show that a device is one of the `unsupported` ones, or a Partition of the `stuck` ones, or is none any more."""
        if holds != (name in marked):
            marked ^= {name}
            self.slices_changed()

    def whole_card_user(self, card: str) -> ClaimRow | None:
        """Return the claim that has the whole card."""
        for row in self.journal.claims():
            if any(device.device == card and not device.admin for device in row.devices):
                return row
        return None


def _by_place(
    live: Iterable[LivePartition], rows: Iterable[PartitionRow]
) -> dict[PartitionPlace, LivePartition]:
    """Return what exists by place; a driver may not tell the template of a vNPU for a while, and what is ours is neither gone nor another's then."""
    found = {each.place: each for each in live}
    for row in rows:
        untold = found.get(replace(row.place, profile=""))
        if untold is not None and row.may_be(untold):
            del found[untold.place]
            found[row.place] = replace(untold, profile=row.place.profile)
    return found


def _marks(rows: Mapping[str, PartitionRow]) -> set[tuple[PartitionPlace, str]]:
    return {(row.place, row.uuid) for row in rows.values()}


def _was(row: PartitionRow, found: LivePartition) -> bool:
    return row.place == found.place and (row.uuid == found.uuid or row.is_half(found))


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
