"""The DeviceClasses that a layout makes: one for each of its profiles."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from apportion.api.contract import LAYOUT_LABEL, MANAGED
from apportion.api.layout import PartitionLayout
from apportion.cluster.kinds import CLASSES
from apportion.errors import BrokenInput


class Offered(NamedTuple):
    """A kind of partition that cards offer."""

    profile: str
    driver: str
    placed: bool
    """Whether it has a position on the card, as a MIG partition has."""


def classes(layout: PartitionLayout, offered: Iterable[Offered]) -> list[dict[str, Any]]:
    """Return the DeviceClasses that a layout wants, as far as nodes publish what they are about."""
    if not layout.spec.device_classes.create:
        return []
    known = sorted(offered)
    found = (next((o for o in known if o.profile == entry.profile), None) for entry in layout.spec.partitions)
    return [_class(layout, each) for each in found if each is not None]


def check_names(layout: PartitionLayout) -> None:
    """Raise BrokenInput for a profile whose DeviceClass would have the name of another one's (1g.24gb+me, 1g.24gb-me): each would be changed into the other, for ever."""
    known: dict[str, str] = {}
    for index, entry in enumerate(layout.spec.partitions if layout.spec.device_classes.create else ()):
        name = class_name(layout.metadata.name, entry.profile)
        if name in known:
            raise BrokenInput(
                f"DeviceClass {name} would be that of {known[name]}, too: a layout of its own makes another one",
                field=f"spec.partitions[{index}].profile",
            )
        known[name] = entry.profile


def class_names(layout: PartitionLayout) -> frozenset[str]:
    """Return the names of the DeviceClasses that a layout wants, whatever the nodes publish at present."""
    if not layout.spec.device_classes.create:
        return frozenset()
    return frozenset(class_name(layout.metadata.name, entry.profile) for entry in layout.spec.partitions)


def class_name(layout: str, profile: str) -> str:
    """Return the name of the DeviceClass for one profile of a layout."""
    return f"{layout}-{re.sub(r'[^a-z0-9]+', '-', profile.lower()).strip('-')}"


def _class(layout: PartitionLayout, offered: Offered) -> dict[str, Any]:
    profile, driver, placed = offered
    attribute = "profile" if placed else "template"
    of = f'device.attributes["{driver}"]'
    labels: Mapping[str, str] = layout.spec.device_classes.labels
    return {
        "apiVersion": CLASSES.api_version,
        "kind": CLASSES.name,
        "metadata": {
            "name": class_name(layout.metadata.name, profile),
            "labels": {**labels, MANAGED: "true", LAYOUT_LABEL: layout.metadata.name},
            "ownerReferences": [
                {
                    "apiVersion": layout.api_version,
                    "kind": layout.kind,
                    "name": layout.metadata.name,
                    "uid": layout.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "selectors": [
                {
                    "cel": {
                        "expression": f'device.driver == "{driver}"'
                        f' && {of}.?layout.orValue("") == "{layout.metadata.name}"'
                        f' && {of}.?{attribute}.orValue("") == "{profile}"'
                    }
                }
            ]
        },
    }
