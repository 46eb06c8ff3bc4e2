"""The Ascend backend: whole NPUs and vNPUs through DCMI.

In: places and live partitions. Out: the driver's answers, or a HardwareError. A vNPU is made in one call under an id that the
caller chose, so a crash leaves it made or not made. It has no UUID: chip and id stand for one, so a vNPU that a person makes
of the same template under the id of one of ours cannot be told apart.
"""

from collections.abc import Callable, Collection, Mapping
from ctypes import byref, c_int, c_uint
from pathlib import Path

import structlog

from apportion.agent.devices.ascend import vnpus
from apportion.agent.devices.ascend.chips import Chip, DcmiAddress, discover
from apportion.agent.devices.ascend.devicefiles import NpuFiles
from apportion.agent.devices.ascend.health import HealthMonitor
from apportion.agent.devices.ascend.knowntemplates import KnownTemplates
from apportion.agent.devices.ascend.session import (
    FILE_FAILED,
    INNER_ERROR,
    INVALID_PARAMETER,
    NO_SUCH_DEVICE,
    Session,
    refusal,
)
from apportion.agent.devices.ascend.structures import AUTO, CreatedVdevice, VdeviceRequest
from apportion.agent.devices.ascend.topology import Topology
from apportion.agent.devices.ascend.vnpus import Vnpu
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.lastseen import LastSeen
from apportion.agent.devices.values import (
    Card,
    Edits,
    Health,
    LivePartition,
    PartitionPlace,
    Placement,
    Profile,
)
from apportion.errors import Busy, HardwareError, Lost, NoRoom, Unsupported

_log = structlog.get_logger()

_CREATE = "dcmi_create_vdevice"
_DESTROY = "dcmi_set_destroy_vdevice"
_NO_REASON = frozenset({INVALID_PARAMETER, INNER_ERROR})
"""The library's codes for a creation that the driver refused; they do not give the reason."""


class AscendBackend:
    """The Ascend NPUs of this node."""

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        at: Callable[[str], None] = lambda _: None,
        calls: CardCalls | None = None,
        templates: KnownTemplates | None = None,
    ) -> None:
        """`root` is where the host's /sys, /dev and /usr are; `at` is called between two driver calls, for crash tests.

        `calls` ask chips at discovery; `templates` are those that npu-smi named before.
        """
        self._root = root
        self._at = at
        self._calls = calls or CardCalls()
        self._templates = templates or KnownTemplates()
        self._session = Session(root)
        self._links = Topology(self._session, self._calls)
        self._monitor = HealthMonitor(self._session)
        self._chips: dict[str, Chip] = {}
        self._left_out: tuple[DcmiAddress, ...] = ()
        self._looked = False
        self._seen = LastSeen("ascend")

    def present(self) -> bool:
        """Say whether Huawei's library is on the node; raises HardwareError when it is and no driver answers it (yet)."""
        return self._session.present()

    def devices(self) -> tuple[Card, ...]:
        """Discover the chips; raises HardwareError when there is no driver.

        A chip that does not answer costs no other chip anything, and a later discovery asks for it. One that was found before stays, also when
        its driver lists it no more: how it is, its health says.
        """
        self._looked = True
        chips, self._left_out = discover(self._session, self._root, self._calls, self._links, self._templates)
        found = {chip.card.uuid for chip in chips}
        kept = [chip for chip in self._chips.values() if chip.card.uuid not in found]
        # Of two of one name the one that is there counts.
        self._chips = {chip.name: chip for chip in sorted((*kept, *chips), key=lambda chip: chip.phy)}
        return tuple(chip.card for chip in self._chips.values())

    def incomplete(self) -> bool:
        """Say whether a chip did not answer at discovery, or not how it is connected: a driver takes its time after a boot."""
        return bool(self._left_out) or self._links.late

    def edits(self, card: str) -> Edits:
        """Return the chip's device files as they are now, and the driver's."""
        chip = self._chip(card)
        return self._files(chip).whole(chip.phy)

    def partitions(self, cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:
        """List every vNPU; a chip that does not answer shows what was last seen on it."""
        known = self._known()
        return self._seen.all(known if cards is None else cards, self._look)

    def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """List the vNPUs of one chip; raises HardwareError when it does not answer."""
        if card in self._known():
            return self._seen.one(card, self._look)
        if self._left_out and card.startswith("npu-"):
            raise Lost(
                f"{card}: {len(self._left_out)} of the node's chips did not answer when they were looked for; "
                "nobody knows what is on it"
            )
        return ()

    def create(self, place: PartitionPlace) -> LivePartition:
        """Make a vNPU with the id that the placement names."""
        chip = self._chip(place.card)
        profile = chip.card.profile(place.profile)
        if profile is None:
            raise Unsupported(f"{place.card} offers no template {place.profile}")
        if place.placement.size != 1 or place.placement.start not in chip.card.instance_ids:
            raise Unsupported(f"{place}: {chip.name} has no such vNPU id")
        self._check_mode(place)
        there = vnpus.list_all(self._session, chip.address)
        if any(vnpu.id == place.placement.start for vnpu in there):
            raise NoRoom(f"{place}: the id is taken; {_listed(chip, there)}")
        self._stop_recovery()
        self._at("hardware.half_made")
        made = self._create(chip, profile, place)
        if made != place.placement.start:
            self._remove(chip, made, place)
            raise Unsupported(f"{place}: the driver made a vNPU {made} instead")
        return self._live(chip, vnpus.describe(self._session, chip.address, made), self._files(chip))

    def destroy(self, live: LivePartition) -> None:
        """Remove exactly this vNPU; another one under its id, by its template, is left alone.

        One whose template the driver does not tell now is this one: taken for gone, it would be nobody's.
        """
        chip = self._chip(live.card)
        for found in vnpus.list_all(self._session, chip.address):
            if found.id != live.placement.start or found.template not in ("", live.profile):
                continue
            if found.in_use:
                raise Busy(f"{live.place}: a container uses it")
            self._remove(chip, found.id, live.place)
            self._seen.removed(live)

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the chips that do not answer or have raised an alarm."""
        known = {name: chip for name, chip in self._known().items() if cards is None or name in cards}
        return self._seen.health(known, self._monitor.look(tuple(known.values())))

    def make_whole(self, card: str) -> None:
        """A chip without vNPUs is whole: the driver undoes what the first one changed when the last one goes."""
        chip = self._chip(card)
        there = vnpus.list_all(self._session, chip.address) if chip.divisible else ()
        if there:
            raise Busy(f"{card}: it is cut; {_listed(chip, there)}")

    def _known(self) -> Mapping[str, Chip]:
        # Once only: chips that came to light here would never reach the agent, which goes by `incomplete`.
        if not self._looked:
            self.devices()
        return self._chips

    def _chip(self, card: str) -> Chip:
        chip = self._known().get(card)
        if chip is None:
            raise Unsupported(f"no NPU {card} on this node")
        return chip

    def _look(self, card: str) -> tuple[LivePartition, ...]:
        chip = self._chip(card)
        if not chip.divisible:
            return ()
        files = self._files(chip)
        return tuple(self._live(chip, vnpu, files) for vnpu in vnpus.list_all(self._session, chip.address))

    def _files(self, chip: Chip) -> NpuFiles:
        return NpuFiles(str(chip.card.attributes["model"]), self._root)

    def _check_mode(self, place: PartitionPlace) -> None:
        mode = c_int()
        # A mode that the library does not tell (of 310P and 910A in containers) is for the creation to find out.
        if self._session.ask("dcmi_get_vdevice_mode", byref(mode)) == 0 and mode.value != 0:
            raise Unsupported(
                f"{place}: the node makes vNPUs for virtual machines; npu-smi set -t vnpu-mode -d 0 changes it"
            )

    def _stop_recovery(self) -> None:
        """Switch off the driver's recovery, which makes vNPUs again at boot that no claim may want any more.

        Where foreign vNPUs exist it stays on, because their owner may rely on it; ours are then found by their ids.
        """
        on = c_uint()
        if self._session.ask("dcmi_get_vnpu_config_recover_mode", byref(on)) != 0 or not on.value:
            return
        if self._others():
            return
        code = self._session.ask("dcmi_set_vnpu_config_recover_mode", c_uint(0))
        if code == 0:
            _log.info("ascend.recovery_off", hint="vNPUs that apportion makes do not come back at boot")
        else:
            error = refusal(code, "dcmi_set_vnpu_config_recover_mode", "DCMI")
            _log.warning("ascend.recovery_stays_on", error=str(error))

    def _others(self) -> bool:
        """Say whether there are vNPUs on this node; a chip that does not answer may have some."""
        try:
            return self.incomplete() or any(self._look(card) for card in self._known())
        except HardwareError:
            return True

    def _create(self, chip: Chip, profile: Profile, place: PartitionPlace) -> int:
        """Make the vNPU and return its id; raises the error that the driver's refusal means."""
        address = chip.address
        wanted = VdeviceRequest(id=place.placement.start, group=AUTO, template=place.profile.encode())
        made = CreatedVdevice()
        code = self._session.ask(_CREATE, address.card, address.device, byref(wanted), byref(made))
        if code == 0:
            return int(made.id)
        error = refusal(code, _CREATE, str(place))
        if code == FILE_FAILED:
            raise HardwareError(f"{error}; is /etc/vnpu.cfg writable, and no link?")
        if code not in _NO_REASON:
            raise error
        # The driver has one code for all reasons; what is on the chip says more. A 310P may have enough in all,
        # but not within one of its groups.
        left = vnpus.left(self._session, address)
        there = vnpus.list_all(self._session, address)
        short = [key for key, value in profile.amounts.items() if key in left and value > left[key]]
        if not short and not there:
            raise HardwareError(str(error))
        lacks = f"not enough {', '.join(short)}" if short else str(error)
        raise NoRoom(f"{place}: {lacks}; {_listed(chip, there)}")

    def _remove(self, chip: Chip, number: int, place: PartitionPlace) -> None:
        code = self._session.ask(_DESTROY, chip.address.card, chip.address.device, c_uint(number))
        if code in NO_SUCH_DEVICE and number not in vnpus.list_ids(self._session, chip.address):
            return
        if code != 0:
            raise refusal(code, _DESTROY, str(place))

    def _live(self, chip: Chip, vnpu: Vnpu, files: NpuFiles) -> LivePartition:
        die = chip.card.uuid.removeprefix("NPU-")
        return LivePartition(
            card=chip.name,
            profile=vnpu.template,
            placement=Placement(vnpu.id, 1),
            uuid=f"VNPU-{die}-{vnpu.id}",
            instance={"vnpu": str(vnpu.id)},
            in_use=vnpu.in_use,
            edits=files.vnpu(vnpu.id),
        )


def _listed(chip: Chip, there: tuple[Vnpu, ...]) -> str:
    rows = ", ".join(f"{vnpu.template or 'an unknown template'} as {vnpu.id}" for vnpu in there)
    return f"{chip.name} has {rows}" if rows else f"{chip.name} is empty"
