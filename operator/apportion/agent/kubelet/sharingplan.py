"""How a claim's devices are to be set up, from its configurations. Pure: the same claim gives the same plan.

In: configurations by device, the claim's devices as its containers get them. Out: the journal's row, None when there is nothing to
set up; or BrokenInput naming the field that cannot be honoured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apportion.agent.devices.sharing import TimeSlice
from apportion.agent.devices.values import MIB, Card
from apportion.agent.kubelet.configuration import Configured
from apportion.agent.rows import ClaimDevice, ClaimRow, Share, SharedDevice, SharingRow
from apportion.api.deviceconfig import Mps, mebibytes
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput

_VOLTA: Final = Semver.parse("7.0.0")
"""The first CUDA compute capability on which users share a server (dra-driver-nvidia-gpu, mps_capability.go)."""
_PER_DEVICE: Final = "defaultPerDevicePinnedMemoryLimit"


@dataclass(frozen=True, slots=True)
class _UnderMps:
    """A device, and what its configuration says about MPS."""

    device: ClaimDevice
    uuid: str
    mps: Mps
    field: str
    """Of `mpsConfig`."""


def check_sharing(
    configured: Mapping[str, Configured], devices: Sequence[ClaimDevice], cards: Mapping[str, Card]
) -> None:
    """Raise BrokenInput for what cannot be honoured on these devices, before anything of them is made ready."""
    whole = {each.device: each.card_uuid for each in devices if each.device == each.card}
    uuids = {each.device: whole.get(each.device, each.device) for each in devices}
    planned, _ = _plan(configured, devices, uuids, cards)
    shares = _mps_shares(devices)
    if planned and shares:
        raise BrokenInput(
            f"{shares[0][0].device} is shared through a control daemon, and a claim has one thing set up",
            field=f"{configured[planned[0].device].field}.sharing",
        )


def sharing_row(
    row: ClaimRow, configured: Mapping[str, Configured], uuids: Mapping[str, str], cards: Mapping[str, Card]
) -> SharingRow | None:
    """Return what is to be set up for a claim; `uuids` are those of its devices, by name. Raises BrokenInput."""
    devices, mps = _plan(configured, row.devices, uuids, cards)
    if not devices:
        return None
    return SharingRow(
        row.uid,
        row.driver,
        devices,
        percentage=mps.default_active_thread_percentage,
        multi_user=bool(mps.multi_user),
    )


def shares_row(row: ClaimRow) -> SharingRow | None:
    """Return what is to be set up for a claim with shares of a GPU under MPS: a daemon for all, and limits in its own containers.

    Several shares of one GPU add up, because a program of the claim finds one daemon. Raises BrokenInput for shares of several GPUs.
    """
    shares = _mps_shares(row.devices)
    if not shares:
        return None
    first, _ = shares[0]
    memory = sum(share.memory for _, share in shares) // MIB
    device = SharedDevice(first.device, first.card_uuid, first.card_uuid, mps=True, memory=memory)
    cores = min(sum(share.cores for _, share in shares), 100)
    return SharingRow(row.uid, row.driver, (device,), percentage=cores, own_limits=True)


def _mps_shares(devices: Sequence[ClaimDevice]) -> list[tuple[ClaimDevice, Share]]:
    """Return the claim's own shares under MPS: what it looks at with admin access has no part of the daemon."""
    found = [
        (each, each.share)
        for each in devices
        if each.share is not None and each.share.cores and not each.admin
    ]
    cards = sorted({each.card for each, _ in found})
    if len(cards) > 1:
        raise BrokenInput(
            f"{' and '.join(cards)} are shared through a control daemon each, and a program finds one: they are for claims of"
            " their own",
            field="status.allocation.devices.results",
        )
    return found


def _plan(
    configured: Mapping[str, Configured],
    devices: Sequence[ClaimDevice],
    uuids: Mapping[str, str],
    cards: Mapping[str, Card],
) -> tuple[tuple[SharedDevice, ...], Mps]:
    """Return the devices that are to be set up, and the terms of their control daemon."""
    shared: list[SharedDevice] = []
    under_mps: list[_UnderMps] = []
    for device in devices:
        asked = configured.get(device.device)
        if asked is None:
            continue
        field = f"{asked.field}.sharing"
        time_slice = TimeSlice[asked.config.time_slice.upper()]
        mps = asked.config.mps
        if mps is None and time_slice is TimeSlice.DEFAULT:
            continue
        if device.admin:
            raise BrokenInput(
                f"device {device.device} is allocated with admin access, and others use it as it is",
                field=field,
            )
        if device.share is not None:
            raise BrokenInput(
                f"device {device.device} is shared with other claims, which use it as it is", field=field
            )
        uuid = uuids[device.device]
        if mps is None:
            shared.append(SharedDevice(device.device, device.card_uuid, uuid, time_slice))
            continue
        under_mps.append(_UnderMps(device, uuid, mps, f"{field}.mpsConfig"))
        if mps.multi_user and not _from_volta_on(cards.get(device.card)):
            raise BrokenInput(
                f"{device.card} serves one user at a time; several take a GPU from Volta on",
                field=f"{field}.mpsConfig.multiUser",
            )
    memory = _memory(under_mps)
    shared += [
        SharedDevice(
            each.device.device, each.device.card_uuid, each.uuid, mps=True, memory=memory.get(each.uuid)
        )
        for each in under_mps
    ]
    return tuple(shared), _terms(under_mps)


def _terms(under_mps: Sequence[_UnderMps]) -> Mps:
    """Return what holds for all devices of a claim: its containers find one control daemon (CUDA_MPS_PIPE_DIRECTORY)."""
    if not under_mps:
        return Mps()
    first, *others = under_mps
    for other in others:
        if other.device.device != other.device.card or first.device.device != first.device.card:
            raise BrokenInput(
                "a program computes on one MIG device: MPS takes a claim with that device only",
                field=other.field.removesuffix(".mpsConfig"),
            )
        for name, ours, theirs in (
            (
                "defaultActiveThreadPercentage",
                first.mps.default_active_thread_percentage,
                other.mps.default_active_thread_percentage,
            ),
            ("multiUser", bool(first.mps.multi_user), bool(other.mps.multi_user)),
        ):
            if ours != theirs:
                raise BrokenInput(
                    f"{theirs} for {other.device.device} and {ours} for {first.device.device}: one control daemon"
                    " serves the claim",
                    field=f"{other.field}.{name}",
                )
    return first.mps


def _memory(under_mps: Sequence[_UnderMps]) -> dict[str, int]:
    """Return the limits of devices in MiB, by UUID; an index counts in the order of UUIDs of one configuration's devices."""
    limits: dict[str, int] = {}
    for field in dict.fromkeys(each.field for each in under_mps):
        group = [each for each in under_mps if each.field == field]
        uuids = sorted(each.uuid for each in group)
        mps = group[0].mps
        if mps.default_pinned_device_memory_limit is not None:
            limits |= dict.fromkeys(uuids, mebibytes(mps.default_pinned_device_memory_limit))
        for key, amount in (mps.default_per_device_pinned_memory_limit or {}).items():
            if key not in uuids and (not key.isdigit() or int(key) >= len(uuids)):
                raise BrokenInput(
                    f"{key} is no device of it; there are {len(uuids)}: {', '.join(uuids)}",
                    field=f"{field}.{_PER_DEVICE}",
                )
            limits[key if key in uuids else uuids[int(key)]] = mebibytes(amount)
    return limits


def _from_volta_on(card: Card | None) -> bool:
    found = card.attributes.get("cudaComputeCapability") if card is not None else None
    return isinstance(found, Semver) and found >= _VOLTA
