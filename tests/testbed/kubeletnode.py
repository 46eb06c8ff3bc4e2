"""A simulated node with a small plugin, and the objects that tests create on it."""

from dataclasses import dataclass

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.kubelet import FakeKubelet
from tests.testbed.smallplugin import DRIVER

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@dataclass
class KubeletNode:
    """A namespace, one simulated node of its own with devices, and short ways to make and look at objects."""

    cluster: ControlPlane
    namespace: str
    kubelet: FakeKubelet

    def path(self, kind: str, name: str = "") -> str:
        group = "/apis/resource.k8s.io/v1" if kind.startswith("resourceclaim") else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    async def publish(self) -> None:
        await self.cluster.api.create(
            SLICES,
            {
                "metadata": {"generateName": "small-"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": self.kubelet.name,
                    "pool": {"name": self.kubelet.name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"device-{index}"} for index in range(2)],
                },
            },
        )

    async def registered(self, *, there: bool = True) -> None:
        """Wait until the plugin is registered, or no longer."""

        async def drivers() -> frozenset[str]:
            return self.kubelet.plugins.drivers

        await eventually(drivers, lambda found: bool(found) == there)

    async def slices(self) -> list[Json]:
        found, _ = await self.cluster.api.items(SLICES, fieldSelector=f"spec.nodeName={self.kubelet.name}")
        return found

    async def claim(self, name: str) -> None:
        request = {"name": "one", "exactly": {"deviceClassName": DRIVER}}
        await self.cluster.api.create(
            self.path("resourceclaims"),
            {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}},
        )

    async def pod(self, name: str, *claims: str, **annotations: str) -> None:
        await self.cluster.api.create(
            self.path("pods"),
            {
                "metadata": {"name": name, "annotations": annotations},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": self.kubelet.name},
                    "containers": [
                        {
                            "name": "main",
                            "image": "none",
                            "resources": {"claims": [{"name": claim} for claim in claims]},
                        },
                        {"name": "beside", "image": "none"},
                    ],
                    "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
                },
            },
        )

    async def phase(self, pod: str, phase: str) -> Json:
        def reached(found: Json) -> bool:
            return bool(found["status"].get("phase") == phase)

        return await eventually(lambda: self.cluster.api.get(self.path("pods", pod)), reached)

    async def gone(self, kind: str, name: str) -> None:
        async def absent() -> bool:
            return await self.cluster.api.find(self.path(kind, name)) is None

        await eventually(absent)

    async def events(self, pod: str) -> list[tuple[str, str]]:
        found, _ = await self.cluster.api.items(
            self.path("events"), fieldSelector=f"involvedObject.name={pod}"
        )
        return [(event["reason"], event["message"]) for event in found if event["source"].get("host")]
