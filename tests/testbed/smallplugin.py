"""A DRA plugin of thirty lines, for a kubelet to talk to."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Self

import grpc

from apportion.agent.proto import dra_v1_pb2, registration_pb2
from testbed.kubelet import FakeKubelet

DRIVER = "small.example.com"


@dataclass
class SmallPlugin:
    """A DRA plugin of thirty lines: every device becomes one CDI device that sets an environment variable."""

    kubelet: FakeKubelet
    calls: list[tuple[str, str]] = field(default_factory=list)
    refusal: str = ""
    writes_cdi: bool = True
    hangs: bool = False
    """A prepare call has no end."""
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
        async with asyncio.timeout(60):
            await self.accepted.wait()
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
            if self.hangs:
                await asyncio.Event().wait()
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
