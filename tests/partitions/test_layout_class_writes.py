"""The DeviceClasses of a layout on a real API server: what it refuses is said of the layout, and labels follow the layout."""

from pathlib import Path
from typing import Any

from apportion.cluster.client import connect
from apportion.cluster.kinds import CLASSES, LAYOUTS
from testbed.controlplane import ControlPlane
from testbed.installation import until_served
from tests.partitions.layoutworld import cards
from tests.partitions.manycards import controller

CRDS = Path(__file__).parents[2] / "crds"
PATH = "/apis/apportion.dev/v1alpha1/partitionlayouts"
CLASS = "/apis/resource.k8s.io/v1/deviceclasses/labelled-3g-40gb"


async def test_a_class_that_is_refused_is_named_in_the_layout_and_made_once_it_is_mended(
    control_plane: ControlPlane,
) -> None:
    """A key of a label with a blank: the schema does not see it, the API server does."""
    await control_plane.kubectl("apply", "--kustomize", str(CRDS))
    await until_served(control_plane)
    api, world = control_plane.api, cards()
    layout = {
        "apiVersion": LAYOUTS.api_version,
        "kind": LAYOUTS.name,
        "metadata": {"name": "labelled"},
        "spec": {
            "partitions": [{"profile": "3g.40gb", "count": 1}],
            "deviceClasses": {"labels": {"not a key": "x"}},
        },
    }
    world.snapshot.observe(LAYOUTS, "ADDED", await api.create(PATH, layout))
    async with await connect(control_plane.kubeconfig, manager="apportion-operator") as client:
        acting = controller(world, client)

        async def accepted(labels: dict[str, str | None]) -> dict[str, Any]:
            """Write the labels of the layout's classes, let the controller act, and return the condition."""
            change = {"spec": {"deviceClasses": {"labels": labels}}}
            world.snapshot.observe(LAYOUTS, "MODIFIED", await api.patch(f"{PATH}/labelled", change))
            for _ in range(3):
                acting.reserve()
                await acting.act()
            found = (await api.get(f"{PATH}/labelled"))["status"]["conditions"]
            return next(each for each in found if each["type"] == "Accepted")

        refused = await accepted({"not a key": "x"})
        assert refused["reason"] == "Broken"
        assert "spec.deviceClasses: DeviceClass labelled-3g-40gb is refused: " in refused["message"]
        assert "not a key" in refused["message"]
        assert ("labelled", "BrokenLayout") in world.warned
        good = await accepted({"not a key": None, "example.com/team": "a"})
        assert (good["status"], good["message"]) == ("True", "")
        assert (await api.get(CLASS))["metadata"]["labels"]["example.com/team"] == "a"
        world.snapshot.observe(CLASSES, "MODIFIED", await api.get(CLASS))
        await accepted({"example.com/team": "b"})
        assert (await api.get(CLASS))["metadata"]["labels"]["example.com/team"] == "b"
        refused = await accepted({"not a key": "x"})
        assert "spec.deviceClasses: DeviceClass labelled-3g-40gb is refused: " in refused["message"]
        good = await accepted({"not a key": None})
        assert (good["status"], good["message"]) == ("True", "")
    await api.delete(f"{PATH}/labelled")
    await api.delete(CLASS)
