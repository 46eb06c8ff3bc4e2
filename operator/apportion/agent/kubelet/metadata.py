"""Device metadata files (KEP-5304): what a container can read about its devices without asking the API.

In: a claim and its devices with their attributes. Out: a file per request in the plugin's folder, and the mount that puts it to
`/var/run/kubernetes.io/dra-device-attributes/resourceclaims/<claim>/<request>/<driver>-metadata.json`; for a claim made from a
template, `.../resourceclaimtemplates/<name in the pod>/...`. Content: a stream of `DeviceMetadata` objects, newest version first.

Beside it lies `<driver>-rank-table.json` for a request that has several whole NPUs: HCCL's rank table of this one server. Several whole GPUs
are in the order of a ring.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from apportion.agent.devices.ascend.ranktable import RankTable, RankTables
from apportion.agent.devices.values import Mount
from apportion.agent.files import UID, write
from apportion.agent.kubelet.ringorder import ring_order
from apportion.agent.rows import Share
from apportion.dra.claim import Claim

VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
"""Both have the same content; v1beta1 is that of Kubernetes 1.37."""
INSIDE = "/var/run/kubernetes.io/dra-device-attributes"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of claims that were made from a template (core/v1 `PodResourceClaimAnnotation`)."""
_FOLDER = "dra-device-metadata"
_OPTIONS = ("ro", "bind")
_RANK_TABLE = "rank-table"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """One device, as its container may know it."""

    requests: tuple[str, ...]
    """As the allocation names them: with the subrequest of a prioritized list."""
    pool: str
    device: str
    attributes: Mapping[str, Any]
    """As in the ResourceSlice, and the UUID of a partition that was cut for the claim."""
    share: Share | None = None
    """None: the claim has the device for itself."""


class MetadataFolder:
    """One driver's files: a folder per claim UID, so that a claim never gets the files of an earlier one of its name."""

    def __init__(self, plugin: Path, driver: str, rank_tables: RankTables | None = None) -> None:
        """`plugin` is the driver's own folder below kubelet's plugins, under the same path on the host.

        `rank_tables`: those of the node, for the driver of NPUs.
        """
        self._folder = plugin / _FOLDER
        self._driver = driver
        self._rank_tables = rank_tables

    def write(self, claim: Claim, devices: Sequence[DeviceDescription]) -> dict[str, tuple[Mount, ...]]:
        """Write those of the claim's files whose content changes; returns the mounts by request."""
        mounts: dict[str, tuple[Mount, ...]] = {}
        for request in dict.fromkeys(name for device in devices for name in device.requests):
            base = request.split("/")[0]
            path = self._folder / claim.uid / base / "metadata.json"
            rows = [device for device in devices if request in device.requests]
            table, rows = self._ranked(rows) if self._rank_tables is not None else ("", _in_ring(rows))
            write(path, content(claim, self._driver, request, rows), sync=False)
            mounts[base] = (Mount(str(path), inside(claim, self._driver, base), _OPTIONS),)
            if table:
                place = path.with_name(f"{_RANK_TABLE}.json")
                write(place, table, sync=False)
                seen = rank_table(claim, self._driver, base)
                mounts[base] += (Mount(str(place), seen, _OPTIONS),)
        return mounts

    def _ranked(self, rows: list[DeviceDescription]) -> tuple[str, list[DeviceDescription]]:
        """Return the rank table of a request's devices, "" for none, and the devices in the order of their ranks."""
        table = self._table({row.device: row.attributes for row in rows})
        if isinstance(table, str):
            return "", rows
        ranked = []
        for row in sorted(rows, key=lambda row: table.ranks[row.device]):
            known: Json = {"hcclRank": {"int": table.ranks[row.device]}}
            if row.device in table.addresses:
                known["deviceIP"] = {"string": table.addresses[row.device]}
            known["rankTable"] = {"string": table.lacking or "several servers"}
            ranked.append(replace(row, attributes={**row.attributes, **known}))
        return table.text, ranked

    def why_unranked(self, devices: Mapping[str, Mapping[str, Any]]) -> str:
        """Say why a request of these devices, attributes by name, has no rank table; "" when it has one."""
        found = self._table(devices)
        return found if isinstance(found, str) else ""

    def _table(self, devices: Mapping[str, Mapping[str, Any]]) -> RankTable | str:
        """Return the rank table of a request's devices, or why they have none."""
        for name, attributes in devices.items():
            if attributes.get("type") != {"string": "npu"}:
                return f"{name} is no whole NPU"
            if "superPodId" in attributes:
                return (
                    f"{name} is in a super pod, whose tables are of template 1.2, with ids of the super pod"
                )
        groups = {
            name: attributes.get("hccsGroup", {}).get("string", "") for name, attributes in devices.items()
        }
        found = self._rank_tables.table(groups) if self._rank_tables is not None else None
        return found or "it has one NPU"

    def read(self, claim: str) -> tuple[Json, ...]:
        """Return the content of a claim UID's files in a version that is known here; files that cannot be read are left out.

        A later release writes further versions before these.
        """
        found = []
        for path in sorted((self._folder / claim).glob("*/metadata.json")):
            with suppress(OSError, ValueError):
                known = (
                    each
                    for each in _stream(path.read_text(encoding="utf-8"))
                    if each.get("apiVersion") in VERSIONS
                )
                found += [each for each in (next(known, None),) if each is not None]
        return tuple(found)

    def remove(self, claim: str) -> None:
        """Remove the files of a claim UID; absent ones are fine."""
        shutil.rmtree(self._folder / claim, ignore_errors=True)

    def claims(self) -> set[str]:
        """Return the UIDs of the claims that have files; folders of other names are not ours."""
        names = {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()
        return {name for name in names if UID.fullmatch(name) is not None}


def _stream(text: str) -> Iterator[Json]:
    """Yield the objects of a stream. Raises ValueError for what is no JSON."""
    while text := text.lstrip():
        each, end = json.JSONDecoder().raw_decode(text)
        text = text[end:]
        if isinstance(each, dict):
            yield each


def _in_ring(rows: list[DeviceDescription]) -> list[DeviceDescription]:
    """Return whole GPUs in the order of a ring, each with its position; other devices as they are."""
    gpus = {
        row.device: row
        for row in rows
        if row.attributes.get("type") == {"string": "gpu"} and row.share is None
    }
    if len(gpus) < 2 or len(gpus) != len(rows):
        return rows
    order = ring_order({name: row.attributes for name, row in gpus.items()})
    return [
        replace(gpus[name], attributes={**gpus[name].attributes, "ringPosition": {"int": position}})
        for position, name in enumerate(order)
    ]


def share_in(attributes: Mapping[str, Any]) -> Share | None:
    """Return the share that a device's attributes in a metadata file name."""
    known = attributes.get("shareID", {}).get("string")
    memory, cores = (int(attributes.get(name, {}).get("int", 0)) for name in ("shareMemory", "shareCores"))
    return Share(known, memory, cores) if known else None


def _share_attributes(share: Share | None) -> Json:
    # `DeviceMetadata` has no fields for shares.
    if share is None:
        return {}
    cores = {"shareCores": {"int": share.cores}} if share.cores else {}
    return {"shareID": {"string": share.id}, "shareMemory": {"int": share.memory}, **cores}


def inside(claim: Claim, driver: str, request: str, file: str = "metadata") -> str:
    """Return where a container finds a file of a request."""
    pod_claim = claim.annotations.get(POD_CLAIM_NAME)
    kind, name = ("resourceclaimtemplates", pod_claim) if pod_claim else ("resourceclaims", claim.name)
    return f"{INSIDE}/{kind}/{name}/{request}/{driver}-{file}.json"


def rank_table(claim: Claim, driver: str, request: str) -> str:
    """Return where a container finds the rank table of a request."""
    return inside(claim, driver, request, _RANK_TABLE)


def content(claim: Claim, driver: str, request: str, devices: Sequence[DeviceDescription]) -> str:
    """Return the stream for one request. Pure."""
    pod_claim = claim.annotations.get(POD_CLAIM_NAME)
    body: Json = {
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid, "generation": 1},
        **({"podClaimName": pod_claim} if pod_claim else {}),
        "requests": [
            {
                "name": request,
                "devices": [
                    {
                        "driver": driver,
                        "pool": device.pool,
                        "name": device.device,
                        "attributes": {**device.attributes, **_share_attributes(device.share)},
                    }
                    for device in devices
                ],
            }
        ],
    }
    made = ({"apiVersion": version, "kind": "DeviceMetadata", **body} for version in VERSIONS)
    return "".join(f"{json.dumps(one, indent=1)}\n" for one in made)
