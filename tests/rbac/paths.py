"""Everything that makes operator and agent use their rights, on a running installation."""

from dataclasses import replace
from typing import Any

from apportion.agent.devices.simulated.state import StateFile
from testbed.api import Json
from testbed.appliedexamples import AppliedExamples
from testbed.demo.demo import read_examples
from testbed.eventually import eventually
from testbed.installation import Installation, SimulatedNode

RESOURCE = "/apis/resource.k8s.io/v1"
OWN = "/apis/apportion.dev/v1alpha1"


class Paths:
    """What the installation is led through: each method is one road that needs rights of its own."""

    def __init__(self, installation: Installation, namespace: str) -> None:
        self.installation = installation
        self.cluster = installation.cluster
        self.api = installation.cluster.api
        self.namespace = namespace
        self.claims = f"{RESOURCE}/namespaces/{namespace}/resourceclaims"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.sets = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"

    async def examples(self) -> None:
        """Every example reaches its end: claims, gates, partitions, a layout with its class, a refusal."""
        examples = read_examples()
        applied = AppliedExamples(self.installation, examples, self.namespace)
        await applied.apply()

        async def left() -> dict[str, list[str]]:
            view = await applied.view()
            found = {each.name: each.differences(view) for each in examples}
            return {name: texts for name, texts in found.items() if texts}

        await eventually(left, lambda left: not left, within=60)

    async def a_preemption(self) -> None:
        """The class of the example is one card: two pods that halve it go together for one of higher priority that needs all of it."""
        short = {"spec": {"partitions": {"idleTimeout": "1s"}}}
        for policy in ("example-preemption", "example-reclaim"):
            await self.api.patch(f"{OWN}/allocationpolicies/{policy}", short)
        for name in ("urgent", "background"):
            await self.api.delete(f"{self.pods}/{name}")
        await self._runs("halved-1", "3g.40gb")
        await self._runs("halved-2", "3g.40gb")
        await self._runs("whole", "7g.80gb", priorityClassName="example-urgent")

    async def _runs(self, name: str, profile: str, **spec: str) -> None:
        """Make a pod on the example's card, and wait until it runs."""
        body = claim(name, profile=profile)
        body["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "example-preemption"
        await self.api.create(self.claims, body)
        await self.api.create(
            self.pods, pod(name, name, nodeSelector={"kubernetes.io/hostname": "h100-b"}, **spec)
        )

        async def runs() -> bool:
            found = await self.api.get(f"{self.pods}/{name}")
            return bool(found["status"].get("phase") == "Running")

        await eventually(runs, within=30)

    async def a_policy(self) -> None:
        """Its status is written; what follows goes by its short times."""
        names = ["gpu.apportion.dev", "mig.apportion.dev", "mig-1g.20gb.apportion.dev"]
        spec = {
            "deviceClasses": {"names": names},
            "partitions": {"idleTimeout": "1s"},
            "unusedTimeout": "1s",
        }
        body = {"apiVersion": "apportion.dev/v1alpha1", "kind": "AllocationPolicy"}
        await self.api.create(
            f"{OWN}/allocationpolicies", body | {"metadata": {"name": "short"}, "spec": spec}
        )
        path = f"{OWN}/allocationpolicies/short"
        await eventually(lambda: self.api.get(path), lambda raw: raw.get("status", {}).get("managedClasses"))

    async def an_allocation_that_nobody_uses(self) -> None:
        """It is read again and given back: the pod that wanted it went before any scheduler saw it."""
        await self.api.create(self.claims, claim("unwanted"))
        await self.api.create(self.pods, pod("unseen", "unwanted", schedulerName="nobody"))
        await eventually(lambda: self._allocated("unwanted"))
        await self.api.delete(f"{self.pods}/unseen", grace=0)
        await eventually(lambda: self._allocated("unwanted"), lambda there: not there)

    async def a_cut_that_fails(self) -> None:
        """The allocation and its reservation are cleared, once the pod was read, and another placement is tried."""
        folder = self.cluster.folder / "agents" / "h100-b"
        failures = [{"error": "Unsupported", "verb": "create", "card": "", "times": 1}]
        hardware = StateFile(folder / "simulation.yaml.state.json")
        with hardware.changing() as state:
            state["faults"]["failures"] = failures
        template = {"metadata": {"name": "unlucky"}, "spec": {"spec": claim("", profile="1g.10gb")["spec"]}}
        await self.api.create(f"{RESOURCE}/namespaces/{self.namespace}/resourceclaimtemplates", template)
        entry = {"name": "r", "resourceClaimTemplateName": "unlucky"}
        here = {"kubernetes.io/hostname": "h100-b"}
        await self.api.create(self.pods, pod("unlucky", "", resourceClaims=[entry], nodeSelector=here))

        async def overcome() -> bool:
            pod = await self.api.get(f"{self.pods}/unlucky")
            struck = hardware.read()["faults"]["failures"][0]["times"] == 0
            return struck and pod["status"]["phase"] == "Running"

        await eventually(overcome, within=30)

    async def slices_that_others_delete(self) -> None:
        """They are published again."""
        await self.api.delete_all(f"{RESOURCE}/resourceslices", fieldSelector="spec.nodeName=h100-a")
        await eventually(lambda: self._slices("h100-a"), lambda found: found > 3)

    async def a_node_that_loses_a_card(self) -> None:
        """Its agent takes back the slice of that card, and says again what it has said before of another one."""
        hardware = StateFile(self.cluster.folder / "agents" / "ascend-910b4-a" / "simulation.yaml.state.json")
        with hardware.changing() as state:
            state["faults"]["sick"] = ["npu-5"]
        await eventually(lambda: self._said("ascend-910b4-a"), lambda count: count == 1)
        before = await self._slices("ascend-910b4-a")
        await self.installation.agents["ascend-910b4-a"].stop()
        self.installation.nodes["ascend-910b4-a"] = smaller(self.installation.nodes["ascend-910b4-a"])
        await self.installation.start_agent("ascend-910b4-a")
        await eventually(lambda: self._slices("ascend-910b4-a"), lambda found: found == before - 1, within=30)
        await eventually(lambda: self._said("ascend-910b4-a"), lambda count: count == 2)

    async def a_class_that_others_change(self) -> None:
        """The operator makes a layout's class right again, and drops it when the layout wants it no more."""
        layout = {
            "apiVersion": "apportion.dev/v1alpha1",
            "kind": "PartitionLayout",
            "metadata": {"name": "thirds"},
            "spec": {
                "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "ascend-910b4-a"}},
                "devices": [{"cel": {"expression": 'device.attributes["npu.apportion.dev"].cardId == 3'}}],
                "partitions": [{"profile": "vir05_1c_8g", "count": 1}],
            },
        }
        await self.api.create(f"{OWN}/partitionlayouts", layout)
        path = f"{RESOURCE}/deviceclasses/thirds-vir05-1c-8g"
        made = await eventually(lambda: self._found(path))
        await self.api.patch(path, {"spec": {"selectors": [{"cel": {"expression": "true"}}]}})
        await eventually(lambda: self._found(path), lambda now: now and now["spec"] == made["spec"])
        await self.api.patch(f"{OWN}/partitionlayouts/thirds", {"spec": {"deviceClasses": {"create": False}}})
        await eventually(lambda: self._found(path), lambda now: not now)

    async def a_restart(self) -> None:
        """The new operator waits for the lease, says what was said before (Events are counted up), and removes a DeviceHold of what nobody holds."""
        nameless = claim("nameless")
        nameless["metadata"]["annotations"] = {"apportion.dev/allocation": "Immediate"}
        nameless["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "nobody-made-it"
        await self.api.create(self.claims, nameless)
        events = f"/api/v1/namespaces/{self.namespace}/events"

        async def said() -> int:
            found, _ = await self.api.items(events, fieldSelector="involvedObject.name=nameless")
            return max((each.get("count", 1) for each in found), default=0)

        await eventually(said, lambda count: count == 1)
        # How long others are shown depends on when they are looked at.
        spec = {
            "purpose": "Reservation",
            "heldFor": [
                {"kind": "ResourceClaim", "namespace": self.namespace, "name": "gone", "uid": "gone"}
            ],
            "count": 1,
            "devices": [{"driver": "gpu.apportion.dev", "pool": "h100-b", "device": "gpu-0"}],
        }
        body = {"apiVersion": "apportion.dev/v1alpha1", "kind": "DeviceHold", "metadata": {"name": "left"}}
        await self.api.create(f"{OWN}/deviceholds", {**body, "spec": spec})
        self.installation.operators[0].kill()
        await eventually(said, lambda count: count > 1, within=40)
        await eventually(lambda: self._found(f"{OWN}/deviceholds/left"), lambda found: not found)

    async def the_end(self) -> None:
        """Everything is deleted: own finalizers go, partitions and layouts are removed from the hardware."""
        namespaces, _ = await self.api.items("/api/v1/namespaces", labelSelector="apportion.dev/managed=true")
        for name in [each["metadata"]["name"] for each in namespaces]:  # an example has its own
            for collection in (self.sets, self.pods, self.claims):
                await self.api.delete_all(collection.replace(self.namespace, name))
        await self.api.delete_all(f"{OWN}/partitionlayouts")

        async def left() -> list[str]:
            claims, _ = await self.api.items(self.claims)
            partitions, _ = await self.api.items(f"{OWN}/partitions")
            mig = [each for each in partitions if each["spec"]["driver"].startswith("gpu")]
            holds, _ = await self.api.items(f"{OWN}/deviceholds")
            return [each["metadata"]["name"] for each in (*claims, *mig, *holds)]

        await eventually(left, lambda names: not names, within=40)

    async def _said(self, node: str) -> int:
        found, _ = await self.api.items("/api/v1/events", fieldSelector=f"involvedObject.name={node}")
        return max((each["count"] for each in found if each["reason"] == "CardSick"), default=0)

    async def _allocated(self, name: str) -> bool:
        claim = await self.api.get(f"{self.claims}/{name}")
        return "allocation" in claim.get("status", {})

    async def _slices(self, node: str) -> int:
        found, _ = await self.api.items(f"{RESOURCE}/resourceslices", fieldSelector=f"spec.nodeName={node}")
        return len(found)

    async def _found(self, path: str) -> Json:
        return await self.api.find(path) or {}


def claim(name: str, *, profile: str = "") -> Json:
    request: Json = {
        "name": "r",
        "exactly": {"deviceClassName": "mig.apportion.dev" if profile else "gpu.apportion.dev"},
    }
    if profile:
        expression = f'device.attributes["gpu.apportion.dev"].profile == "{profile}"'
        request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, claim: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "r"}]}}
    own = {"resourceClaims": [{"name": "r", "resourceClaimName": claim}], "containers": [container]}
    return {"metadata": {"name": name}, "spec": own | spec}


def smaller(node: SimulatedNode) -> SimulatedNode:
    """Return the node without its last card."""
    (cards,) = node.simulation["cards"]
    return replace(node, simulation={"cards": [cards | {"count": cards["count"] - 1}]})
