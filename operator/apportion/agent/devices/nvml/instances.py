"""GPU instances and compute instances of one GPU: list, make, remove.

In: a session and a GPU. Out: what is there. Instances are listed per profile, because a GPU instance without a compute
instance is seen by no other call; such a one is what a crash between the two creations leaves.
"""

from collections.abc import Iterator
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from apportion.agent.devices.nvml.cards import Gpu
from apportion.agent.devices.nvml.profiles import MigProfile, mig_profiles
from apportion.agent.devices.nvml.session import NOT_OFFERED, NOT_THERE, Session, text
from apportion.agent.devices.values import Placement
from apportion.errors import HardwareError, Unsupported

_ENGINES: Final = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
ANY_ID: Final = 0xFFFFFFFF
"""What stands for no instance (nvml.h, nvmlEventData_t)."""
_COMPUTE_IDS: Final = 8
"""Ids of compute instances are below it: an instance has at most seven slices."""
_UNTOLD: Final = NOT_OFFERED | NOT_THERE | {pynvml.NVML_ERROR_NO_PERMISSION}


@dataclass(frozen=True, slots=True)
class Compute:
    """A compute instance: what a container sees as one MIG device."""

    handle: Any
    id: int
    uuid: str
    in_use: bool | None
    """Whether a process has it; None: unknown."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance with its compute instances, lowest id first; none: it is half made."""

    handle: Any
    id: int
    mig: MigProfile
    placement: Placement
    computes: tuple[Compute, ...]


class Instances:
    """The instances of all GPUs."""

    def __init__(self, session: Session, *, sees_processes: bool) -> None:
        """`sees_processes`: the driver lists processes of the caller's PID namespace only, and this is the host's."""
        self._session = session
        self._sees_processes = sees_processes
        self._computes: dict[tuple[str, int], tuple[tuple[int, int, int], ...]] = {}
        """Compute instance profiles (id, slices, most) by GPU and GPU instance profile."""

    def of(self, gpu: Gpu, migs: tuple[MigProfile, ...] | None = None) -> tuple[Instance, ...]:
        """List what exists, of some shapes only if they are given; nothing while MIG mode is off."""
        if not gpu.divisible or not self.mode(gpu):
            return ()
        handle, memory = self._handle(gpu), gpu.card.capacity["memory"]
        # The driver may have named no shapes when the GPU was looked at: in MIG mode it does.
        migs = migs or gpu.migs or mig_profiles(self._session, handle, memory, {}, gpu.name)
        found = [one for mig in migs for one in self._of_profile(gpu, mig)]
        return tuple(sorted(found, key=lambda one: (one.placement, one.id)))

    def mode(self, gpu: Gpu) -> bool:
        """Say whether MIG mode is on now."""
        found = self._session.ask(
            "nvmlDeviceGetMigMode", self._handle(gpu), none_on=NOT_OFFERED, about=gpu.name
        )
        return bool(found and found[0])

    def make_gpu_instance(self, gpu: Gpu, mig: MigProfile, placement: Placement, about: str) -> Any:
        """Make a GPU instance at this place; returns its handle. Raises NoRoom, Unsupported, Busy or Lost."""
        place = pynvml.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
        return self._session.call(
            "nvmlDeviceCreateGpuInstanceWithPlacement", self._handle(gpu), mig.id, byref(place), about=about
        )

    def make_compute_instance(self, gpu: Gpu, mig: MigProfile, instance: Any, about: str) -> None:
        """Make the compute instance that fills a GPU instance."""
        profiles = self._compute_profiles(gpu, mig, instance)
        full = next((number for number, slices, _ in profiles if slices == mig.slices), None)
        if full is None:
            raise Unsupported(f"{about}: no compute instance profile fills {mig.profile.name}")
        self._session.call("nvmlGpuInstanceCreateComputeInstance", instance, full, about=about)

    def read(self, gpu: Gpu, mig: MigProfile, handle: Any) -> Instance | None:
        """Read one GPU instance; None when it is gone."""
        info = self._session.ask("nvmlGpuInstanceGetInfo", handle, none_on=NOT_THERE, about=gpu.name)
        if info is None:
            return None
        computes = sorted(self._computes_of(gpu, mig, handle), key=lambda one: one.id)
        placement = Placement(info.placement.start, info.placement.size)
        return Instance(handle, info.id, mig, placement, tuple(computes))

    def uuids(self, gpu: str, instance: int, compute: int) -> tuple[str, ...]:
        """Return the UUIDs of a GPU instance's compute instances, of one if its id is known; nothing if it is gone.

        `gpu` is a UUID, the others are the driver's ids.
        """
        parent = self._session.ask(
            "nvmlDeviceGetGpuInstanceById",
            self._session.handle(gpu, gpu),
            instance,
            none_on=NOT_THERE | NOT_OFFERED,
            about=gpu,
        )
        found = []
        for number in (
            (range(_COMPUTE_IDS) if compute == ANY_ID else (compute,)) if parent is not None else ()
        ):
            one = self._session.ask(
                "nvmlGpuInstanceGetComputeInstanceById",
                parent,
                number,
                none_on=NOT_THERE | NOT_OFFERED,
                about=gpu,
            )
            if one is not None:
                device = self._session.call("nvmlComputeInstanceGetInfo", one, about=gpu).device
                found.append(text(self._session.call("nvmlDeviceGetUUID", device, about=gpu)))
        return tuple(found)

    def remove_compute_instance(self, compute: Compute, about: str) -> None:
        """Remove a compute instance; a missing one is fine. Raises Busy while a process uses it."""
        self._session.ask("nvmlComputeInstanceDestroy", compute.handle, none_on=NOT_THERE, about=about)

    def remove_gpu_instance(self, handle: Any, about: str) -> None:
        """Remove a GPU instance; a missing one is fine. Raises Busy while it has a compute instance."""
        self._session.ask("nvmlGpuInstanceDestroy", handle, none_on=NOT_THERE, about=about)

    def _of_profile(self, gpu: Gpu, mig: MigProfile) -> Iterator[Instance]:
        rows = (pynvml.c_nvmlGpuInstance_t * mig.room)()
        count = c_uint(mig.room)
        function, handle = "nvmlDeviceGetGpuInstances", self._handle(gpu)
        listed = self._session.ask(
            function, handle, mig.id, rows, byref(count), none_on=NOT_OFFERED, about=gpu.name
        )
        # MIG mode may be switched off at any time: then there are none.
        for handle in rows[: count.value] if listed is not None else ():
            found = self.read(gpu, mig, handle)
            if found is not None:
                yield found

    def _computes_of(self, gpu: Gpu, mig: MigProfile, instance: Any) -> Iterator[Compute]:
        for number, _, most in self._compute_profiles(gpu, mig, instance):
            rows = (pynvml.c_nvmlComputeInstance_t * most)()
            count = c_uint(most)
            listed = self._session.ask(
                "nvmlGpuInstanceGetComputeInstances",
                instance,
                number,
                rows,
                byref(count),
                none_on=NOT_THERE | NOT_OFFERED,
                about=gpu.name,
            )
            for handle in rows[: count.value] if listed is not None else ():
                info = self._session.ask(
                    "nvmlComputeInstanceGetInfo", handle, none_on=NOT_THERE, about=gpu.name
                )
                uuid = info and self._session.ask(
                    "nvmlDeviceGetUUID", info.device, none_on=NOT_THERE, about=gpu.name
                )
                if uuid:
                    yield Compute(handle, info.id, text(uuid), self._in_use(info.device, gpu.name))

    def _compute_profiles(self, gpu: Gpu, mig: MigProfile, instance: Any) -> tuple[tuple[int, int, int], ...]:
        # Only an existing instance can be asked, and all instances of a profile have the same.
        key = (gpu.card.uuid, mig.id)
        if key not in self._computes:
            found: dict[int, tuple[int, int, int]] = {}
            for constant in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
                info = self._compute_profile(instance, constant, gpu.name)
                if info is not None:
                    found.setdefault(info.id, (info.id, info.sliceCount, max(info.instanceCount, 1)))
            if not found:
                return ()
            self._computes[key] = tuple(found.values())
        return self._computes[key]

    def _compute_profile(self, instance: Any, constant: int, about: str) -> Any:
        function = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
        for version in (2, 1):
            info = self._session.ask(
                function, instance, constant, _ENGINES, version, none_on=NOT_OFFERED | NOT_THERE, about=about
            )
            if info is not None:
                return info
        return None

    def _in_use(self, device: Any, about: str) -> bool | None:
        if not self._sees_processes:
            # An empty list would be no proof, because processes of others are left out; the query is the dearest of all.
            return None
        try:
            found = self._session.ask(
                "nvmlDeviceGetComputeRunningProcesses", device, none_on=_UNTOLD, about=about
            )
        except HardwareError:
            # That it exists is what matters, and destroying asks the driver anyway.
            return None
        return bool(found) if found is not None else None

    def _handle(self, gpu: Gpu) -> Any:
        return self._session.handle(gpu.card.uuid, gpu.name)
