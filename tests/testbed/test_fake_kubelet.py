"""The fake kubelet against a small real plugin, the stock scheduler and the stock controllers."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from apportion.agent.proto import dra_v1_pb2, registration_pb2
from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.kubelet import FakeKubelet
from testbed.node import NodeShape
from testbed.nodes import simulated_nodes

DRIVER = "small.example.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


@dataclass
class SmallPlugin:
    """A DRA plugin of thirty lines: every device becomes one CDI device that sets an environment variable."""

    kubelet: FakeKubelet
    calls: list[tuple[str, str]] = field(default_factory=list)
    refusal: str = ""
    writes_cdi: bool = True
    accepted: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        root = self.kubelet.root
        self.endpoint = root / "plugins" / "dra.sock"
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers(
            (
                _service("pluginregistration.Registration", registration_pb2, GetInfo=self._info),
                _service(
                    "pluginregistration.Registration",
                    registration_pb2,
                    NotifyRegistrationStatus=self._notified,
                ),
                _service(
                    "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
                    dra_v1_pb2,
                    NodePrepareResources=self._prepare,
                    NodeUnprepareResources=self._unprepare,
                ),
            )
        )
        self.server.add_insecure_port(f"unix:{self.endpoint}")
        self.server.add_insecure_port(f"unix:{root / 'plugins_registry' / f'{DRIVER}-reg.sock'}")
        await self.server.start()
        await asyncio.wait_for(self.accepted.wait(), 10)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop(0)
        del self.server  # its finaliser needs the running loop, so it must not wait for the garbage collector

    async def _info(self, _: Any, __: Any) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(self.endpoint),
            supported_versions=["v99.DRAPlugin", "v1.DRAPlugin"],
        )

    async def _notified(
        self, status: registration_pb2.RegistrationStatus, _: Any
    ) -> registration_pb2.RegistrationStatusResponse:
        assert status.plugin_registered, status.error
        self.accepted.set()
        return registration_pb2.RegistrationStatusResponse()

    async def _prepare(self, request: Any, _: Any) -> dra_v1_pb2.NodePrepareResourcesResponse:
        response = dra_v1_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            self.calls.append(("prepare", claim.name))
            if self.refusal:
                response.claims[claim.uid].error = self.refusal
                continue
            spec = {
                "cdiVersion": "0.6.0",
                "kind": f"{DRIVER}/device",
                "devices": [{"name": claim.uid, "containerEdits": {"env": [f"DEVICE={claim.name}"]}}],
                "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]},
            }
            if self.writes_cdi:
                (self.kubelet.cdi / f"{claim.uid}.json").write_text(json.dumps(spec))
            response.claims[claim.uid].devices.add(
                request_names=["one"],
                pool_name=self.kubelet.name,
                device_name="device-0",
                cdi_device_ids=[f"{DRIVER}/device={claim.uid}"],
            )
        return response

    async def _unprepare(self, request: Any, _: Any) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        response = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            self.calls.append(("unprepare", claim.name))
            (self.kubelet.cdi / f"{claim.uid}.json").unlink(missing_ok=True)
            response.claims[claim.uid].SetInParent()
        return response


def _service(name: str, messages: Any, **methods: Any) -> grpc.GenericRpcHandler:
    requests = {"GetInfo": "InfoRequest", "NotifyRegistrationStatus": "RegistrationStatus"}
    return grpc.method_handlers_generic_handler(
        name,
        {
            method: grpc.unary_unary_rpc_method_handler(
                handler,
                request_deserializer=getattr(messages, requests.get(method, f"{method}Request")).FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for method, handler in methods.items()
        },
    )


@dataclass
class Stage:
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

    async def registered(self) -> None:
        async def drivers() -> frozenset[str]:
            return self.kubelet.plugins.drivers

        await eventually(drivers)

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
            try:
                await self.cluster.api.get(self.path(kind, name))
            except ApiError as error:
                return error.status == 404
            return False

        await eventually(absent)

    async def events(self, pod: str) -> list[tuple[str, str]]:
        found, _ = await self.cluster.api.items(
            self.path("events"), fieldSelector=f"involvedObject.name={pod}"
        )
        return [(event["reason"], event["message"]) for event in found if event["source"].get("host")]


@pytest.fixture
async def stage(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Stage]:
    """Make a simulated node with two devices of the small driver."""
    await control_plane.api.patch(
        f"{CLASSES}/{DRIVER}",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
        "apply",
        fieldManager="test",
    )
    name = f"node-{namespace}"
    async with simulated_nodes(control_plane, [name], wiping_delay=0.6) as kubelets:
        stage = Stage(control_plane, namespace, kubelets[name])
        await stage.publish()
        yield stage
        await control_plane.api.delete_all(SLICES, fieldSelector=f"spec.nodeName={name}")


async def test_a_pod_gets_its_device_and_gives_it_back(stage: Stage) -> None:
    """Registration, prepare, injection, Running; then unprepare, deletion and deallocation."""
    async with SmallPlugin(stage.kubelet) as plugin:
        await stage.claim("mine")
        await stage.pod("user", "mine")
        running = await stage.phase("user", "Running")
        assert running["status"]["podIP"]
        record = stage.kubelet.record("user", stage.namespace)
        assert record.injected["main"].environment == {"DEVICE": "mine"}
        assert record.injected["main"].device_nodes == ["/dev/null"]
        assert record.injected["beside"].environment == {}, "it does not name the claim"

        # The record follows the answer to the status that others see already.
        async def noted() -> float | None:
            return record.running

        ran = await eventually(noted)
        assert record.bound <= (record.prepared or 0) <= (ran or 0)

        await stage.cluster.api.delete(stage.path("pods", "user"))
        await stage.gone("pods", "user")
        assert plugin.calls == [("prepare", "mine"), ("unprepare", "mine")]
        await eventually(
            lambda: stage.cluster.api.get(stage.path("resourceclaims", "mine")),
            lambda claim: "allocation" not in claim.get("status", {}),
        )


async def test_a_refused_prepare_is_shown_and_tried_again(stage: Stage) -> None:
    """The plugin's own words reach the pod's Events; once the plugin agrees, the pod runs."""
    async with SmallPlugin(stage.kubelet, refusal="the device is on fire") as plugin:
        await stage.claim("mine")
        await stage.pod("user", "mine")
        events = await eventually(lambda: stage.events("user"))
        assert [reason for reason, _ in events] == ["FailedPrepareDynamicResources"]
        assert "the device is on fire" in events[0][1]
        plugin.refusal = ""
        await stage.phase("user", "Running")
        await stage.cluster.api.delete(stage.path("pods", "user"))
        await stage.gone("pods", "user")


async def test_a_shared_claim_is_prepared_once_and_unprepared_after_the_last_pod(stage: Stage) -> None:
    """Two pods with one claim both see the device; the first one's end takes nothing from the second."""
    async with SmallPlugin(stage.kubelet) as plugin:
        await stage.claim("ours")
        await asyncio.gather(stage.pod("first", "ours"), stage.pod("second", "ours"))
        for pod in ("first", "second"):
            await stage.phase(pod, "Running")
            assert stage.kubelet.record(pod).injected["main"].environment == {"DEVICE": "ours"}
        await stage.cluster.api.delete(stage.path("pods", "first"))
        await stage.gone("pods", "first")
        assert plugin.calls == [("prepare", "ours")]
        await stage.cluster.api.delete(stage.path("pods", "second"))
        await stage.gone("pods", "second")
        assert plugin.calls == [("prepare", "ours"), ("unprepare", "ours")]


async def test_an_id_that_no_spec_file_defines_keeps_the_pod_from_running(stage: Stage) -> None:
    """As a container runtime would: the id is named, and the pod waits until it can be resolved."""
    async with SmallPlugin(stage.kubelet, writes_cdi=False):
        await stage.claim("mine")
        await stage.pod("user", "mine")
        events = await eventually(lambda: stage.events("user"))
        assert events[0][0] == "Failed"
        assert f"unresolvable CDI devices {DRIVER}/device=" in events[0][1]
        found = await stage.cluster.api.get(stage.path("pods", "user"))
        assert found["status"]["phase"] == "Pending"
        await stage.cluster.api.delete(stage.path("pods", "user"))
        await stage.gone("pods", "user")


async def test_a_pod_waits_while_its_plugin_is_away(stage: Stage) -> None:
    """A pod that ends while the plugin restarts is released by the plugin that comes back under the same paths."""
    async with SmallPlugin(stage.kubelet):
        await stage.claim("mine")
        await stage.pod("user", "mine")
        await stage.phase("user", "Running")
    await stage.cluster.api.delete(stage.path("pods", "user"))
    problems = stage.kubelet.record("user").problems

    async def complained() -> list[str]:
        return problems

    await eventually(complained)
    assert (await stage.cluster.api.get(stage.path("pods", "user")))["metadata"]["deletionTimestamp"]
    async with SmallPlugin(stage.kubelet) as second:
        await stage.gone("pods", "user")
        assert second.calls == [("unprepare", "mine")]


async def test_slices_are_wiped_when_a_plugin_stays_away(stage: Stage) -> None:
    """A short absence costs nothing; a longer one makes the devices disappear, as with the real kubelet."""
    async with SmallPlugin(stage.kubelet):
        await stage.registered()
    await asyncio.sleep(0.2)
    async with SmallPlugin(stage.kubelet):
        await stage.registered()
        await asyncio.sleep(1.0)
        assert len(await stage.slices()) == 1, "it came back in time"
    await eventually(stage.slices, lambda found: not found)


async def test_a_restarted_kubelet_prepares_again_and_releases_what_vanished(stage: Stage) -> None:
    """Prepare must be idempotent; a pod that was deleted by force meanwhile is unprepared afterwards."""
    async with SmallPlugin(stage.kubelet) as plugin:
        await stage.claim("kept")
        await stage.claim("lost")
        await stage.pod("stays", "kept")
        await stage.pod("leaves", "lost")
        await stage.phase("stays", "Running")
        await stage.phase("leaves", "Running")
        await stage.kubelet.stop()
        await stage.cluster.api.delete(stage.path("pods", "leaves"), grace=0)
        plugin.calls.clear()
        await stage.kubelet.start()

        async def calls() -> set[tuple[str, str]]:
            return set(plugin.calls)

        await eventually(calls, lambda seen: seen == {("prepare", "kept"), ("unprepare", "lost")})
        await stage.cluster.api.delete(stage.path("pods", "stays"))
        await stage.gone("pods", "stays")


async def test_an_annotated_pod_succeeds_by_itself(stage: Stage) -> None:
    """Job-like pods end after the seconds that they name, and their claims are released first."""
    async with SmallPlugin(stage.kubelet) as plugin:
        await stage.claim("mine")
        await stage.pod("job", "mine", **{"testbed/complete-after": "0.3"})
        await stage.phase("job", "Succeeded")
        assert plugin.calls == [("prepare", "mine"), ("unprepare", "mine")]
        record = stage.kubelet.record("job")
        assert (record.succeeded or 0) - (record.running or 0) >= 0.3
        await stage.cluster.api.delete(stage.path("pods", "job"))
        await stage.gone("pods", "job")


async def test_twenty_nodes_run_in_one_process(control_plane: ControlPlane, namespace: str) -> None:
    """Every pod lands on the node that its selector names, by the labels of the Node's shape."""
    names = [f"many-{index}-{namespace}" for index in range(20)]
    shapes = [NodeShape(name, labels={"apportion.dev/rack": "a"}) for name in names]
    async with simulated_nodes(control_plane, shapes) as kubelets:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        for name in names:
            spec = {
                "nodeSelector": {"kubernetes.io/hostname": name, "apportion.dev/rack": "a"},
                "containers": [{"name": "main", "image": "none"}],
            }
            await control_plane.api.create(pods, {"metadata": {"name": name}, "spec": spec})

        async def running() -> set[str]:
            found, _ = await control_plane.api.items(pods, fieldSelector="status.phase=Running")
            assert all(pod["spec"]["nodeName"] == pod["metadata"]["name"] for pod in found)
            return {pod["metadata"]["name"] for pod in found}

        await eventually(running, lambda found: len(found) == len(names))

        async def noted() -> bool:
            return all(kubelets[name].record(name).running for name in names)

        await eventually(noted)
        await control_plane.api.delete_all(pods)
        await eventually(lambda: control_plane.api.items(pods), lambda found: not found[0])


def test_sockets_of_simulated_nodes_have_short_paths(control_plane: ControlPlane) -> None:
    """The path of a Unix socket has at most 107 bytes."""
    longest = Path("nodes") / "node-123456" / "plugins_registry" / f"{'d' * 20}.apportion.dev-reg.sock"
    assert len(str(control_plane.folder / longest)) <= 107
