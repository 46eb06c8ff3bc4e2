"""That a class of a layout is refused is said of the layout no longer than it is missing."""

import pytest

from apportion.cluster.kinds import CLASSES
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
