"""The files of claims while the agent runs: what nobody needs goes, what a claim needs comes back, what is not ours stays."""

import uuid

from testbed.eventually import eventually
from tests.agent.places import GPU, H100
from tests.agent.simulatednode import MakeNode, holder

DEVICE = "gpu-0-mig-1g10gb-19-3"


async def test_files_that_no_claim_needs_are_removed_at_start_and_later(make_node: MakeNode) -> None:
    """Left by a crash or a lost journal. Files of others stay, whatever they are called."""
    async with make_node(cards=[H100]) as node:
        cdi, metadata = node.folder / "cdi", node.folder / "p" / GPU / "dra-device-metadata"
        cdi.mkdir()
        theirs = {f"{GPU}_notes.json", f"x.{GPU}_{uuid.uuid4()}.json", "nvidia.yaml"}
        for name in theirs:
            (cdi / name).write_text("{}")

        def orphan() -> None:
            uid = uuid.uuid4()
            (cdi / f"{GPU}_{uid}.json").write_text(f'{{"kind": "{GPU}/claim"}}')
            (cdi / f"{GPU}_{uuid.uuid4()}.new").write_text("{")
            # Put there whole: the agent may remove a folder before it has another one in it.
            made = node.folder / str(uid)
            (made / "r0").mkdir(parents=True)
            metadata.mkdir(parents=True, exist_ok=True)
            made.rename(metadata / str(uid))

        async def names() -> set[str]:
            return {path.name for path in cdi.iterdir()} | {path.name for path in metadata.iterdir()}

        orphan()
        async with node.agent(files_interval=0.1):
            for _ in range(2):
                await eventually(names, lambda found: found == theirs)
                orphan()
            await eventually(names, lambda found: found == theirs)


async def test_a_prepared_claims_files_come_back_when_somebody_removes_them(
    make_node: MakeNode, namespace: str
) -> None:
    """A container that restarts needs them, and kubelet does not ask again while it lives."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent(files_interval=0.1):
        claims = [
            await node.claim(namespace, "part", DEVICE),
            await node.claim(namespace, "whole", "gpu-1"),
        ]
        await node.partition(DEVICE, "1g.10gb", holder=holder(claims[0]))
        for claim in claims:
            assert await node.prepared(claim) == ""
        right = node.cdi()
        assert len(right) == 2
        for damage in ("removed", "cut short"):
            for name in right:
                path = node.folder / "cdi" / name
                if damage == "removed":
                    path.unlink()
                else:
                    path.write_text('{"kind": ')

            async def there() -> dict[str, str]:
                return {path.name: path.read_text() for path in (node.folder / "cdi").glob("*.json")}

            await eventually(
                there, lambda found: len(found) == 2 and all(len(text) > 50 for text in found.values())
            )
            assert node.cdi() == right


async def test_a_reboot_loses_no_claim_and_keeps_no_file(make_node: MakeNode, namespace: str) -> None:
    """The runtime's folder is empty then, the plugin's is not; kubelet asks for what still runs."""
    async with make_node(cards=[H100]) as node:
        claim = await node.claim(namespace, "mine", "gpu-0")
        uid = claim["metadata"]["uid"]
        async with node.agent():
            assert await node.prepared(claim) == ""
        (node.folder / "boot").write_text("second boot")
        for path in (node.folder / "cdi").iterdir():
            path.unlink()
        metadata = node.folder / "p" / GPU / "dra-device-metadata"
        assert (metadata / uid).is_dir()
        async with node.agent(files_interval=0.1):

            async def left() -> list[str]:
                return [path.name for path in metadata.iterdir()]

            await eventually(left, lambda names: names == [])
            assert await node.prepared(claim) == ""
            assert len(node.cdi()) == 1
            assert await left() == [uid]
