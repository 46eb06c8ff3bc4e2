"""What the files of prepared claims say of their devices: all that is known of them after the journal was lost.

In: a driver's CDI and metadata files. Out: the devices by which a claim was prepared, with the UUIDs of then, and which card had which name.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apportion.agent.cdi import CdiFolder
from apportion.agent.kubelet.metadata import Json, MetadataFolder, share_in
from apportion.agent.network.podnetworks import INSIDE
from apportion.agent.rows import ClaimRow, Share

_PARTITION: Final = re.compile(r"((?:gpu|npu)-\d+)-.+")
"""A partition's name begins with that of its card; all other devices are cards by themselves."""


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device of a claim, as its metadata files name it."""

    device: str
    pool: str
    share: Share | None
    """None: the claim has the device for itself."""
    requests: tuple[str, ...]
    uuid: str
    """"" when its card was not known."""
    card: str
    """Name of the card that it is, or lies on."""
    card_uuid: str

    @property
    def whole(self) -> bool:
        """Whether it is a card."""
        return self.device == self.card


def named_devices(files: Iterable[Json]) -> tuple[NamedDevice, ...]:
    """Return the devices that a claim's metadata files name, each once, with the requests that they serve."""
    requests: dict[tuple[str, str, Share | None], list[str]] = {}
    attributes: dict[str, Mapping[str, Any]] = {}
    for file in files:
        for request in file["requests"]:
            for device in request["devices"]:
                attributes[device["name"]] = device["attributes"]
                key = device["name"], device["pool"], share_in(device["attributes"])
                requests.setdefault(key, []).append(request["name"].split("/")[0])
    return tuple(
        _named(*key, tuple(dict.fromkeys(served)), attributes[key[0]]) for key, served in requests.items()
    )


def _named(
    name: str, pool: str, share: Share | None, requests: tuple[str, ...], attributes: Mapping[str, Any]
) -> NamedDevice:
    part, uuid = _PARTITION.fullmatch(name), _text(attributes, "uuid")
    card, card_uuid = (name, uuid) if part is None else (part[1], _text(attributes, "parentUUID"))
    return NamedDevice(name, pool, share, requests, uuid, card, card_uuid)


def prepared_cards(cdi: CdiFolder, metadata: MetadataFolder, driver: str) -> dict[str, str]:
    """Return the cards of a driver's prepared claims: UUIDs by the names that they had when the claims were prepared."""
    found = (device for uid in sorted(cdi.claims(driver)) for device in named_devices(metadata.read(uid)))
    return {device.card: device.card_uuid for device in found if device.card_uuid}


def lacks_interface(cdi: CdiFolder, row: ClaimRow, known: Collection[str]) -> bool:
    """Say whether containers of a claim wait for the interface of a device that is not `known`: the journal was lost before it was in their pod."""
    unknown = (each.device for each in row.devices if each.device not in known)
    return any(cdi.names(row.driver, row.uid, f"{INSIDE}/{device}.json") for device in unknown)


def _text(attributes: Mapping[str, Any], name: str) -> str:
    return str(attributes.get(name, {}).get("string", ""))
