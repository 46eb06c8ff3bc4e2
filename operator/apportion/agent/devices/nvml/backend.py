"""The NVIDIA backend: whole GPUs and MIG partitions through NVML.

In: places and live partitions. Out: the driver's answers, or a HardwareError. A partition is a GPU instance at an explicit
placement with one compute instance that fills it. What is known between calls is only what a GPU is, never what is on it
(but for one that does not answer).
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

import structlog

from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.hostfs import sees_host_processes
from apportion.agent.devices.lastseen import LastSeen
from apportion.agent.devices.names import CardNames, UnkeptNames
from apportion.agent.devices.nvml.cards import HOPPER, Gpu, discover
from apportion.agent.devices.nvml.devicefiles import DeviceFiles
from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.devices.nvml.fabric import Cliques, fabric
from apportion.agent.devices.nvml.gpusharing import GpuSharing
from apportion.agent.devices.nvml.health import HealthMonitor
from apportion.agent.devices.nvml.instances import Instances
from apportion.agent.devices.nvml.knownprofiles import KnownProfiles
from apportion.agent.devices.nvml.links import Links
from apportion.agent.devices.nvml.livepartition import live_partition
from apportion.agent.devices.nvml.migmode import MigMode
from apportion.agent.devices.nvml.profiles import MigProfile
from apportion.agent.devices.nvml.session import Session
from apportion.agent.devices.stickyerrors import StickyErrors
from apportion.agent.devices.values import Card, Edits, Health, LivePartition, PartitionPlace
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Unsupported

_log = structlog.get_logger()


class NvmlBackend:
    """The NVIDIA GPUs of this node."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        at: Callable[[str], None] = lambda _: None,
        names: CardNames | None = None,
        sticky_errors: StickyErrors | None = None,
        ignored_xids: frozenset[int] = frozenset(),
        driver_root: Path | None = None,
        calls: CardCalls | None = None,
        profiles: KnownProfiles | None = None,
        smi_seconds: float = 20.0,
    ) -> None:
        """`root` is where the host's /proc, /sys and /dev are; `at` is called between two driver calls, for crash tests.

        `names` are those that GPUs have already; `sticky_errors` keep what the driver reports once and never again; `ignored_xids`
        are errors that say nothing about a GPU's health, beside those that programs cause; `driver_root` is where the host has
        the driver, if not at a usual place; `calls` ask GPUs at discovery; `profiles` are those that the driver named before;
        `smi_seconds` is how long nvidia-smi may take: it opens every GPU of the node first, which takes seconds without persistence mode.
        """
        self._root = root
        self._at = at
        self._names = names or UnkeptNames()
        self._calls = calls or CardCalls()
        self._profiles = profiles or KnownProfiles()
        self._driver = DriverFiles(root, driver_root)
        if root != Path("/"):
            self._driver.preload()
        self._session = Session()
        self._links = Links(self._session, self._calls)
        self._mode = MigMode(self._session)
        self._instances = Instances(self._session, sees_processes=sees_host_processes(root))
        self._monitor = HealthMonitor(self._session, self._instances, sticky_errors, ignored_xids)
        self.sharing = GpuSharing(root, self._session, self._driver, self._gpu, smi_seconds)
        """Sets GPUs up for programs that share them."""
        self._gpus: dict[str, Gpu] = {}
        self._left_out: frozenset[str] = frozenset()
        self._outdated = False
        self.cliques = Cliques(self._session, self._calls)
        self._seen = LastSeen("nvml")

    def present(self) -> bool:
        """Say whether NVIDIA's library is on the node; raises HardwareError when it is and no driver answers it (yet)."""
        return self._session.present()

    def devices(self) -> tuple[Card, ...]:
        """Discover the GPUs; raises HardwareError when there is no driver."""
        gpus, left_out = discover(
            self._session, self._root, self._names, self._calls, self._links, self._profiles
        )
        self._outdated = False
        # A GPU that was known stays as it was: that it does not answer now is a question of its health.
        kept = [gpu for gpu in self._gpus.values() if gpu.name in left_out]
        found = sorted((*gpus, *kept), key=lambda gpu: (len(gpu.name), gpu.name))
        self._gpus = {gpu.name: gpu for gpu in found}
        if left_out - self._left_out:
            hint = "its name stays until a person says that it left for good (apportion node forget)"
            _log.warning("nvml.gpus_not_found", cards=sorted(left_out), hint=hint)
        self._left_out = left_out
        # Before the first look at health, so that nothing is missed; that one listens to the GPUs that do not let us now.
        self._calls.ask("events", {gpu.name: partial(self._monitor.listen, [gpu]) for gpu in found})
        return tuple(gpu.card for gpu in found)

    def incomplete(self) -> bool:
        """Say whether a GPU that is known was not found at discovery, or did not tell its links or shapes and may tell them now.

        So may one that has joined its fabric since, and one whose MIG mode somebody has switched on: a driver that names no shapes without it
        does then.
        """
        return bool(self._left_out) or self._links.late or self._outdated or self._in_mig_mode_since()

    def _in_mig_mode_since(self) -> bool:
        """Say whether a GPU that is not cut for want of MIG mode is in it; one that does not answer is not."""
        uncut = {
            name: gpu
            for name, gpu in self._gpus.items()
            if gpu.divisible and not (gpu.migs or gpu.in_mig_mode)
        }
        calls = {name: partial(self._instances.mode, gpu) for name, gpu in uncut.items()}
        return True in self._calls.ask("mode", calls).values()

    def edits(self, card: str) -> Edits:
        """Return device files by the minor that the GPU has now (nvml.h: it may change with the MIG mode), and the driver's."""
        gpu = self._gpu(card)
        return self._files().whole(self._minor(gpu), gpu.card.location.pci_bus_id)

    def partitions(self, cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:
        """List every GPU instance; those without a compute instance are not complete.

        For a GPU that does not answer they are those last seen: its partitions must not be taken for removed.
        """
        known = self._known()
        return self._seen.all(known if cards is None else cards, self._look)

    def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """List the GPU instances of one GPU; raises HardwareError when it does not answer."""
        if card in self._known():
            return self._seen.one(card, self._look)
        if card in self._left_out:
            raise Lost(f"{card}: it was not found when GPUs were looked for; nobody knows what is on it")
        return ()

    def create(self, place: PartitionPlace) -> LivePartition:
        """Cut a partition: MIG mode, GPU instance, compute instance. A refusal leaves nothing of it behind."""
        gpu, mig = self._mig_profile(place)
        if place.placement not in mig.profile.placements:
            raise Unsupported(f"{place}: the driver offers no such placement")
        if not self._instances.mode(gpu):
            self._mode.switch(gpu, on=True)
        try:
            handle = self._instances.make_gpu_instance(gpu, mig, place.placement, str(place))
        except NoRoom as error:
            # The driver has one code for a full GPU and for one that has instances left half made.
            raise NoRoom(f"{error}; {self._taken(gpu)}") from None
        self._at("hardware.half_made")
        try:
            self._instances.make_compute_instance(gpu, mig, handle, str(place))
            made = self._instances.read(gpu, mig, handle)
        except HardwareError:
            self._undo(handle, place)
            raise
        if made is None:
            raise Lost(f"{place}: it vanished while it was being made")
        if not made.computes:
            # Without its UUID nobody could tell later whose it is.
            raise HardwareError(f"{place}: the driver does not tell its compute instance")
        return live_partition(gpu, made, self._files(), self._minor(gpu))

    def destroy(self, live: LivePartition) -> None:
        """Remove exactly this partition: compute instance, then GPU instance; then MIG mode, if it was the last.

        One whose UUID is another by now is left alone: ids and places are used again. Raises Busy while a process uses
        it, or when it has compute instances that apportion did not make.
        """
        gpu, mig = self._mig_profile(live.place)
        for found in self._instances.of(gpu, (mig,)):
            if found.placement != live.placement:
                continue
            uuids = {compute.uuid for compute in found.computes}
            if live.uuid not in (uuids or {""}):
                return
            if uuids - {live.uuid}:
                raise Busy(f"{live.place}: it has compute instances that apportion did not make")
            if any(compute.in_use for compute in found.computes):
                raise Busy(f"{live.place}: a process uses it")
            for compute in found.computes:
                self._instances.remove_compute_instance(compute, str(live.place))
                self._monitor.forget(compute.uuid)
                self._at("hardware.half_removed")
            self._instances.remove_gpu_instance(found.handle, str(live.place))
            self._seen.removed(live)
            self._switch_off(gpu)

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the GPUs that do not answer or have reported errors; all, while the driver is let go of."""
        known = {name: gpu for name, gpu in self._known().items() if cards is None or name in cards}
        if self._session.released:
            return dict.fromkeys(known, Health.RELEASED)
        return self._seen.health(known, self._monitor.look(tuple(known.values())))

    def make_whole(self, card: str) -> None:
        """Make a GPU usable uncut: MIG mode off. Raises Busy while it has instances, Unsupported if it needs a reset."""
        gpu = self._gpu(card)
        if not self._instances.mode(gpu):
            return
        if self._instances.of(gpu):
            raise Busy(f"{card}: it is cut; {self._taken(gpu)}")
        self._mode.switch(gpu, on=False)

    def fabric_cards(self) -> Collection[str]:
        """Return the GPUs that belong to an NVLink fabric."""
        return tuple(gpu.name for gpu in self._gpus.values() if gpu.on_fabric)

    def fabric(self, card: str) -> str:
        """Return why a GPU has not joined its fabric, "" when it has."""
        gpu = self._gpu(card)
        with self.cliques.asking(card):
            place = fabric(self._session, self._session.handle(gpu.card.uuid, gpu.name), gpu.name)
        self.cliques.note(card, place)
        if place is not None and place.attributes.items() - gpu.card.attributes.items():
            # It has joined since it was discovered: the next discovery publishes its clique.
            self._outdated = True
        return place.missing if place is not None else ""

    def release(self, why: str) -> None:
        """Let go of the driver for the rest of this process; GPUs are shown as last seen. `why` is for people."""
        self._session.release(why)
        _log.warning("nvml.released", why=why)

    def answers(self) -> bool:
        """Say whether a driver answers since this one was let go of, perhaps another one."""
        return self._session.answers()

    def close(self) -> None:
        """End the session with the driver; a call that comes later, from a thread that was late, opens none."""
        self._session.release("this backend is closed")

    def _known(self) -> Mapping[str, Gpu]:
        if not self._gpus:
            self.devices()
        return self._gpus

    def _gpu(self, card: str) -> Gpu:
        gpu = self._known().get(card)
        if gpu is None:
            raise Unsupported(f"no GPU {card} on this node")
        return gpu

    def _files(self) -> DeviceFiles:
        return DeviceFiles(self._root, self._driver.edits())

    def _minor(self, gpu: Gpu) -> int:
        handle = self._session.handle(gpu.card.uuid, gpu.name)
        return int(self._session.call("nvmlDeviceGetMinorNumber", handle, about=gpu.name))

    def _look(self, card: str) -> tuple[LivePartition, ...]:
        gpu = self._gpu(card)
        found = self._instances.of(gpu)
        if not found:
            return ()
        files, minor = self._files(), self._minor(gpu)
        return tuple(live_partition(gpu, instance, files, minor) for instance in found)

    def _mig_profile(self, place: PartitionPlace) -> tuple[Gpu, MigProfile]:
        gpu = self._gpu(place.card)
        mig = gpu.mig(place.profile)
        if mig is None:
            raise Unsupported(f"{place.card} offers no profile {place.profile}")
        return gpu, mig

    def _switch_off(self, gpu: Gpu) -> None:
        """Give the GPU back whole, where that takes no reset. Looks at the hardware, not at what was once true."""
        if gpu.architecture < HOPPER or self._instances.of(gpu):
            return
        try:
            self._mode.let_go(gpu)
        except HardwareError as error:
            # Partitions are gone, which is what was asked for; make_whole tries again when it matters.
            _log.warning("nvml.mig_stays_on", card=gpu.name, error=str(error))

    def _undo(self, handle: object, place: PartitionPlace) -> None:
        try:
            self._instances.remove_gpu_instance(handle, str(place))
        except HardwareError as error:
            # The next listing shows it as half made, and its owner removes it.
            _log.warning("nvml.half_made_left", place=str(place), error=str(error))

    def _taken(self, gpu: Gpu) -> str:
        found = self._instances.of(gpu)
        rows = (
            f"{one.mig.profile.name} at {one.placement.start}" + ("" if one.computes else " (half made)")
            for one in found
        )
        return f"{gpu.name} has {', '.join(rows)}" if found else f"{gpu.name} is empty"
