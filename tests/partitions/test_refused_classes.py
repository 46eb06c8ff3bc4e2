"""That a class of a layout is refused is said of the layout as long as it is not as the layout wants it, and no longer."""

import pytest

from apportion.cluster.kinds import CLASSES, LAYOUTS
from apportion.errors import ApiError
from apportion.partitions.classwriter import ClassWriter
from tests.cluster.apiserver import ApiServer, failed
from tests.partitions.layoutworld import cards, plan


async def test_a_class_that_somebody_else_has_made_is_refused_no_more() -> None:
    """Another leader has, or an answer was lost: the layout would be called broken until this process ends."""
    world = cards()
    world.layout({"profile": "3g.40gb", "count": 1})
    found = plan(world)
    [raw] = found.classes
    async with ApiServer().serving() as server, server.client() as client:
        server.fault = lambda request: failed(403, "it is forbidden") if request.method == "POST" else None
        writer = ClassWriter(client, world.snapshot, world.recorder(client), fence=lambda: None)
        with pytest.raises(ApiError):
            await writer.write(raw, found)
        assert "it is forbidden" in str(writer.refused(found))
        world.see(CLASSES, raw)
        await writer.write(raw, found)
        assert writer.refused(found) is None


async def test_a_change_of_a_class_that_is_refused_is_named_until_the_layout_is_mended() -> None:
    """A label that somebody adds to `spec.deviceClasses.labels` later: the layout counted as carried out, and its class had no such label."""
    world = cards()
    layout = world.layout({"profile": "3g.40gb", "count": 1})
    async with ApiServer().serving() as server, server.client() as client:
        writer = ClassWriter(client, world.snapshot, world.recorder(client), fence=lambda: None)
        await writer.write(plan(world).classes[0], plan(world))
        server.fault = lambda request: failed(422, "not a key") if request.method == "PATCH" else None
        world.see(
            LAYOUTS, {**layout, "spec": layout["spec"] | {"deviceClasses": {"labels": {"not a key": "x"}}}}
        )
        for _ in range(2):
            with pytest.raises(ApiError):
                await writer.write(plan(world).classes[0], plan(world))
            assert "DeviceClass l-3g-40gb is refused: " in str(writer.refused(plan(world)))
        world.see(LAYOUTS, layout)
        await writer.write(plan(world).classes[0], plan(world))
        assert writer.refused(plan(world)) is None
