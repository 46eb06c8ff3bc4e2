"""ClassWriter: writes the DeviceClasses of layouts, and says of a layout which of them the API server refuses.

In: plans of layouts. Out: DeviceClasses made, changed and deleted; never one that no layout made.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from apportion.api.contract import LAYOUT_LABEL
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, LAYOUTS
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import ApiError, BrokenInput
from apportion.partitions.layoutclasses import class_names
from apportion.partitions.layouts import LayoutPlan

_log = structlog.get_logger()
_INVALID = frozenset({400, 403, 422})
"""HTTP status of a write that is refused for what it says."""


class ClassWriter:
    """Writes while this replica leads."""

    def __init__(
        self, client: Client, snapshot: Snapshot, recorder: Recorder, *, fence: Callable[[], None]
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._recorder = recorder
        self._fence = fence
        self._refused: dict[str, str] = {}
        """Why a class could not be made or changed, by its name."""

    async def write(self, raw: dict[str, Any], plan: LayoutPlan) -> None:
        """Make a class, or change it to what the layout wants. Raises ApiError."""
        name = raw["metadata"]["name"]
        found = next((c for c in self._snapshot.classes.values() if c.name == name), None)
        layout = plan.layout.metadata
        if found is None:
            self._fence()
            made = await self._written(name, self._client.create(CLASSES, raw))
            self._snapshot.observe(CLASSES, "MODIFIED", made)
            _log.info("class.made", name=name, layout=layout.name)
        elif found.labels.get(LAYOUT_LABEL) != layout.name:
            self._refused.pop(name, None)  # others may have made it
            self._recorder.warning(
                About(LAYOUTS, layout.name, layout.uid),
                "ClassNotOurs",
                f"spec.deviceClasses: DeviceClass {name} exists and was not made by this layout; it is left alone",
            )
        elif not _is_as_wanted(found, raw):
            self._fence()
            metadata = {key: raw["metadata"][key] for key in ("labels", "ownerReferences")}
            metadata["resourceVersion"] = found.version
            change = {"metadata": metadata, "spec": raw["spec"]}
            made = await self._written(name, self._client.patch(CLASSES, name, change))
            self._snapshot.observe(CLASSES, "MODIFIED", made)
        else:
            self._refused.pop(name, None)

    def refused(self, plan: LayoutPlan) -> BrokenInput | None:
        """Return why a class of a layout could not be made or changed; None: none was refused."""
        names = sorted(class_names(plan.layout) & self._refused.keys())
        return BrokenInput(self._refused[names[0]], field="spec.deviceClasses") if names else None

    def stale(self, plan: LayoutPlan) -> list[DeviceClass]:
        """Return classes that were made for the layout and that its spec no longer asks for."""
        wanted = class_names(plan.layout)
        name = plan.layout.metadata.name
        made = [c for c in self._snapshot.classes.values() if c.labels.get(LAYOUT_LABEL) == name]
        return [found for found in made if found.name.startswith(f"{name}-") and found.name not in wanted]

    async def drop(self, found: DeviceClass) -> None:
        """Delete a class. Raises ApiError."""
        self._fence()
        await self._client.delete(CLASSES, found.name, uid=found.uid, version=found.version)
        _log.info("class.dropped", name=found.name)

    async def _written(self, name: str, write: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Return what was written of a class. Raises ApiError, and remembers what the API server refuses."""
        try:
            made = await write
        except ApiError as error:
            if error.status in _INVALID:
                self._refused[name] = f"DeviceClass {name} is refused: {error}"
            raise
        self._refused.pop(name, None)
        return made


def _is_as_wanted(found: DeviceClass, raw: Mapping[str, Any]) -> bool:
    """Say whether a class has the selectors and labels that a layout wants, and is deleted with it; further labels are somebody else's."""
    selectors = [each["cel"]["expression"] for each in raw["spec"]["selectors"]]
    labels, owners = raw["metadata"]["labels"].items(), raw["metadata"]["ownerReferences"]
    owned = {owner["uid"] for owner in owners} <= set(found.owners)
    return owned and selectors == list(found.selectors) and labels <= found.labels.items()
