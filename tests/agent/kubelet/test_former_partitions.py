"""A claim whose first prepare failed is allocated anew: the partition that it has lost is removed at once."""

from pathlib import Path

import pytest

from apportion.errors import NotReady
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.kubelet.test_recollection import cut_for_claim
from tests.agent.lifecycle.onecard import DEVICE, one_card
from tests.agent.places import H100, MakeBackend

CUT = {"card": "gpu-1", "profile": "1g.10gb", "start": 0}
"""A partition that somebody made keeps gpu-1 from being prepared whole."""


async def test_the_worker_of_a_partition_that_a_claim_has_no_more_is_woken(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It looks at its card once a minute, and whose claim got the place waited so long for it."""
    woken: list[tuple[str, str]] = []
    backend = make_backend(cards=[H100 | {"count": 3}], foreign=[CUT])
    async with one_card(tmp_path, backend) as node:
        await cut_for_claim(node)
        with pytest.raises(NotReady, match="still cut"):
            await preparer(tmp_path, node, DEVICE, "gpu-1").prepare(REF)
        (partition,) = node.items.values()
        node.delete(partition)
        await node.work()
        assert "still prepared" in node.status(partition)["conditions"][0]["message"]
        await preparer(tmp_path, node, "gpu-2", try_now=lambda card, uid: woken.append((card, uid))).prepare(
            REF
        )
        assert woken == [("gpu-0", "p1")]
        await node.work()
        assert node.items == {}
