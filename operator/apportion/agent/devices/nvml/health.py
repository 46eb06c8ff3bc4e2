"""The health of GPUs: whether they answer, uncorrected memory errors, and XID errors that the driver reports.

In: a session and the GPUs. Out: a health per card that is not healthy. An XID error that is not the application's own
is sticky until a reboot or `node recover`, because NVML does not report when a GPU is healthy again; memory errors count until
the GPU is reset (volatile ECC counters); a GPU is lost as long as it does not answer. A contained error is one of the partition that it
hit: its UUID is marked, and the GPU is well, unless it has counted more errors than were contained.
"""

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pynvml
import structlog

from apportion.agent.devices.nvml.cards import Gpu
from apportion.agent.devices.nvml.eventset import EventSet
from apportion.agent.devices.nvml.instances import ANY_ID, Instances
from apportion.agent.devices.nvml.session import NOT_OFFERED, NoSession, Session, text
from apportion.agent.devices.stickyerrors import ContainedErrors, StickyErrors
from apportion.agent.devices.values import Health
from apportion.errors import HardwareError, Lost

_log = structlog.get_logger()

APPLICATION_XIDS: Final = frozenset({11, 13, 14, 25, 31, 37, 43, 45, 68, 69, 80, 109, 137})
"""Errors that a program causes in its own context; the GPU is healthy, and so is what others have of it.

What NVIDIA's device plugin skips, and those for which NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors) wants the program
restarted, or nothing done, and the program looked at. 32 is not among them: the bus causes it, says the catalogue.
"""
REPORT_XIDS: Final = frozenset({63, 106, 107, 121})
"""Reports: a row that was remapped, tests, errors that a link has corrected. The catalogue wants nothing done."""
CONTAINED_XIDS: Final = frozenset({94})
"""Uncorrected memory errors of which the driver says that they hit one partition only (NVIDIA XID catalogue: contained error).

Any other error that is seen in a partition may concern the whole GPU: 95 is the one that could not be contained.
"""
RECOVERY_XID: Final = 154
"""The driver wants another recovery of the GPU than before, or none any more (NVIDIA XID catalogue: GPU recovery action changed)."""
_TYPES: Final = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
_LONGEST_DRAIN: Final = 1.0
"""Seconds to wait for another thread that takes the events."""


class HealthMonitor:
    """Remembers what was reported; safe to ask from several threads."""

    def __init__(
        self,
        session: Session,
        instances: Instances,
        sticky_errors: StickyErrors | None = None,
        ignored: frozenset[int] = frozenset(),
    ) -> None:
        """`sticky_errors` has the GPUs, by UUID, for which an error was reported; `ignored` XIDs say nothing of a GPU, beside those above."""
        self._session = session
        self._instances = instances
        self._sticky_errors = sticky_errors or StickyErrors()
        self._ignored = APPLICATION_XIDS | REPORT_XIDS | ignored
        self._lock = threading.Lock()
        self._set: EventSet | None = None
        session.before_end(self._free_set)
        self._heard: dict[int | None, str] = {}
        """UUIDs of GPUs whose events go to the set, by the address of their handles: a GPU that is lost tells no UUID."""
        self._names: dict[str, str] = {}
        """Names of cards by UUID."""
        self._just_contained: set[tuple[str, int]] = set()
        """UUIDs of GPUs and ids of their instances that contained errors hit since the GPU's counter was last read."""
        self._silent: set[str] = set()
        """UUIDs of GPUs that have no events, or did not let us listen when they were last asked."""

    def listen(self, gpus: Sequence[Gpu]) -> None:
        """Begin to listen, so that nothing is missed between discovery and the first look."""
        self._names |= {gpu.card.uuid: gpu.name for gpu in gpus}
        events = self._open_set()
        for gpu in gpus:
            if events is not None and gpu.card.uuid not in self._heard.values():
                # Without the lock: it reaches the GPU, which may not answer.
                self._listen_to(gpu, events)

    def look(self, gpus: Sequence[Gpu]) -> Mapping[str, Health]:
        """Return the health of the cards that are not healthy. Raises HardwareError without a session."""
        self.listen(gpus)
        self._take_events()
        if self._set is None:
            # It failed: what comes before the next look is for another one.
            self.listen(gpus)
        uuids = {gpu.card.uuid for gpu in gpus}
        excused = {hit for hit in tuple(self._just_contained) if hit[0] in uuids}
        found = self._health(gpus)
        doubted = [gpu for gpu in gpus if found[gpu.name] is Health.SICK]
        if doubted:
            # The event of a contained error may have come after those that were taken, and before the counter was read.
            self._take_events()
            # One error may be several events of its instance.
            self._just_contained.difference_update(excused)
            late = {uuid for uuid, _ in tuple(self._just_contained)}
            found |= self._health([gpu for gpu in doubted if gpu.card.uuid in late])
        return {name: health for name, health in found.items() if health is not Health.HEALTHY}

    def _take_events(self) -> None:
        """Take the events that have come; who waits for them now takes them for all, and if that hangs, the others go on without them."""
        if self._lock.acquire(timeout=_LONGEST_DRAIN):
            try:
                self._drain()
            finally:
                self._lock.release()

    def _health(self, gpus: Sequence[Gpu]) -> dict[str, Health]:
        marked = self._sticky_errors.all()
        return {gpu.name: self._of(gpu, marked=gpu.card.uuid in marked) for gpu in gpus}

    def _of(self, gpu: Gpu, *, marked: bool) -> Health:
        try:
            handle = self._session.handle(gpu.card.uuid, gpu.name)
            # Names and ids are answered from the library's memory; these questions reach the GPU.
            self._session.ask("nvmlDeviceGetMemoryInfo", handle, none_on=NOT_OFFERED, about=gpu.name)
            errors = self._session.ask(
                "nvmlDeviceGetTotalEccErrors",
                handle,
                pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                pynvml.NVML_VOLATILE_ECC,
                none_on=NOT_OFFERED,
                about=gpu.name,
            )
        except NoSession:
            raise
        except Lost:
            return Health.LOST
        except HardwareError:
            # Some lost GPUs answer "Unknown Error" and the like: new work stays away from what cannot be asked.
            return Health.SICK
        excused = self._excused(gpu.card.uuid, errors or 0)
        return Health.SICK if (errors or 0) > excused or marked else Health.HEALTHY

    def forget(self, uuid: str) -> None:
        """Forget the error of a partition that is removed."""
        self._sticky_errors.remove(uuid)

    def _excused(self, uuid: str, errors: int) -> int:
        """Return how many of a GPU's memory errors are no errors of the GPU: those that were contained.

        The event and the counter are two ways of the same error. What hit one instance since the last look counts as one error,
        because each of the instance's channels may report it (open-gpu-kernel-modules, `RC_ALL_COMPUTE_CHANNELS_IN_SPECIFIC_PARTITION`):
        rather a GPU is taken for sick than a sick one for well.
        """
        hits = {hit for hit in tuple(self._just_contained) if hit[0] == uuid}
        self._just_contained -= hits
        known = self._sticky_errors.contained(uuid)
        # A smaller counter began anew with a reset of the GPU.
        before = known.contained if errors >= known.counted else 0
        contained = min(before + len(hits), errors)
        if contained or known.contained:
            now = ContainedErrors(contained, errors)
            if now != known:
                self._sticky_errors.note_contained(uuid, now)
        return contained

    def _open_set(self) -> EventSet | None:
        """Return the set that events come to, None when there is none now. Raises NoSession."""
        if self._set is not None and self._set.alive:
            return self._set
        with self._lock:
            if self._set is None or not self._set.alive:
                self._heard, self._set = {}, None
                try:
                    self._set = EventSet(self._session)
                except NoSession:
                    raise
                except HardwareError as error:
                    _log.warning("nvml.no_event_set", error=str(error))
            return self._set

    def _free_set(self) -> None:
        if (events := self._set) is not None:
            events.free()

    def _listen_to(self, gpu: Gpu, events: EventSet) -> None:
        uuid = gpu.card.uuid
        try:
            handle = self._session.handle(uuid, gpu.name)
            known = self._session.ask(
                "nvmlDeviceGetSupportedEventTypes", handle, none_on=NOT_OFFERED, about=gpu.name
            )
            if known:
                events.register(handle, known & _TYPES, gpu.name)
        except HardwareError as error:
            if uuid not in self._silent:
                _log.warning("nvml.no_events", card=gpu.name, error=str(error))
            self._silent.add(uuid)
            return
        self._silent.discard(uuid)
        if events is self._set:
            self._heard[_address(handle)] = uuid

    def _drain(self) -> None:
        while self._set is not None:
            try:
                event = self._set.next()
            except Lost as error:
                # One GPU is lost (nvml.h); the set goes on and keeps what others report.
                _log.warning("nvml.events_late", error=str(error))
                return
            except HardwareError as error:
                # The set died with its session; the next look makes another.
                _log.warning("nvml.events_lost", error=str(error))
                self._set.free()
                self._set = None
                return
            if event is None:
                return
            self._note(event)

    def _note(self, event: Any) -> None:
        uuids = self._reporters(event)
        xid = event.eventType == pynvml.nvmlEventTypeXidCriticalError
        mine = not (xid and event.eventData in self._ignored)
        _log.warning(
            "nvml.event",
            cards=[self._names.get(uuid, uuid) for uuid in uuids],
            xid=event.eventData if xid else None,
            gpu_instance=None if event.gpuInstanceId == ANY_ID else event.gpuInstanceId,
            counts=mine,
        )
        if xid and event.eventData == RECOVERY_XID:
            uuids = tuple(uuid for uuid in uuids if self._needs_recovery(uuid))
        for uuid in uuids if mine else ():
            for hit in self._hit(event, uuid):
                self._sticky_errors.add(hit, f"XID {event.eventData}" if xid else "double-bit ECC error")

    def _needs_recovery(self, uuid: str) -> bool:
        """Say whether a GPU is to be reset, drained or the like; one that does not tell is."""
        fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        try:
            handle = self._session.handle(uuid, uuid)
            (found,) = self._session.call("nvmlDeviceGetFieldValues", handle, fields, about=uuid)
        except HardwareError:
            return True
        known = found.nvmlReturn == pynvml.NVML_SUCCESS
        return not known or found.value.uiVal != pynvml.NVML_GPU_RECOVERY_ACTION_NONE

    def _hit(self, event: Any, gpu: str) -> tuple[str, ...]:
        """Return the UUIDs of what an event concerns: its GPU, or the partitions that a contained error hit, if they are there yet.

        The ids are those of instances that the event is attributable to (nvml.h, nvmlEventData_t).
        """
        instance = event.gpuInstanceId
        if instance == ANY_ID or event.eventData not in CONTAINED_XIDS:
            return (gpu,)
        try:
            hit = self._instances.uuids(gpu, instance, event.computeInstanceId)
        except HardwareError as error:
            _log.warning("nvml.partition_unknown", gpu=gpu, gpu_instance=instance, error=str(error))
            return (gpu,)
        self._just_contained.add((gpu, instance))
        return hit

    def _reporters(self, event: Any) -> tuple[str, ...]:
        """Return the UUID of the GPU that an event is about; of all that are heard when that is unknown. It comes only once."""
        known = self._heard.get(_address(event.device))
        if known is not None:
            return (known,)
        try:
            return (text(self._session.call("nvmlDeviceGetUUID", event.device)),)
        except HardwareError:
            return tuple(self._heard.values())


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
