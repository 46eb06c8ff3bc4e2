"""The calls that kubelet makes over the sockets of an agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc

from apportion.agent.proto import dra_v1_pb2, health_v1_pb2, registration_pb2
from testbed.api import Json
from tests.agent.places import GPU


class KubeletCalls:
    """Kubelet beside an agent whose sockets lie below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.messages: ModuleType = dra_v1_pb2
        """The version of the plugin's protocol that kubelet speaks."""

    async def is_served(self, driver: str = GPU) -> bool:
        """Say whether a driver's registration socket is there."""
        return (self.folder / "r" / f"{driver}-reg.sock").exists()

    async def registered(self, driver: str = GPU) -> registration_pb2.PluginInfo:
        """Ask the registration socket, as kubelet does when it appears."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/r/{driver}-reg.sock") as channel:
            ask = channel.unary_unary(
                "/pluginregistration.Registration/GetInfo",
                request_serializer=registration_pb2.InfoRequest.SerializeToString,
                response_deserializer=registration_pb2.PluginInfo.FromString,
            )
            answer: registration_pb2.PluginInfo = await ask(registration_pb2.InfoRequest())
            return answer

    async def register(self, driver: str = GPU, *, instance: str = "") -> None:
        """Tell a driver's registration socket that its plugin is registered, as kubelet does within a second."""
        socket = self.folder / "r" / f"{driver}{instance and '-'}{instance}-reg.sock"
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            tell = channel.unary_unary(
                "/pluginregistration.Registration/NotifyRegistrationStatus",
                request_serializer=registration_pb2.RegistrationStatus.SerializeToString,
                response_deserializer=registration_pb2.RegistrationStatusResponse.FromString,
            )
            await tell(registration_pb2.RegistrationStatus(plugin_registered=True))

    async def prepare(
        self, *claims: Json, driver: str = GPU
    ) -> dict[str, dra_v1_pb2.NodePrepareResourceResponse]:
        """Call NodePrepareResources."""
        answer = await self._call("NodePrepareResources", "NodePrepareResource", claims, driver)
        return dict(answer.claims)

    async def prepared(self, claim: Json, driver: str = GPU) -> str:
        """Have one claim prepared; returns the error, empty for none."""
        answers = await self.prepare(claim, driver=driver)
        return str(answers[claim["metadata"]["uid"]].error)

    async def unprepare(self, *claims: Json, driver: str = GPU) -> dict[str, str]:
        """Call NodeUnprepareResources; returns the errors by claim UID."""
        answer = await self._call("NodeUnprepareResources", "NodeUnprepareResource", claims, driver)
        return {uid: row.error for uid, row in answer.claims.items()}

    async def unprepared(self, claim: Json, driver: str = GPU) -> str:
        """Have one claim unprepared; returns the error, empty for none."""
        return (await self.unprepare(claim, driver=driver))[claim["metadata"]["uid"]]

    @asynccontextmanager
    async def health(
        self, messages: ModuleType = health_v1_pb2, driver: str = GPU
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Open the health stream as kubelet does; gives an iterator of lists, each by device name."""
        service = messages.DESCRIPTOR.services_by_name["DRAResourceHealth"].full_name
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/p/{driver}/dra.sock") as channel:
            call = channel.unary_stream(
                f"/{service}/NodeWatchResources",
                request_serializer=messages.NodeWatchResourcesRequest.SerializeToString,
                response_deserializer=messages.NodeWatchResourcesResponse.FromString,
            )(messages.NodeWatchResourcesRequest())

            async def lists() -> AsyncIterator[dict[str, Any]]:
                async for answer in call:
                    yield {row.device.device_name: row for row in answer.devices}

            yield lists()

    async def _call(self, method: str, message: str, claims: tuple[Json, ...], driver: str) -> Any:
        request, response = (getattr(self.messages, f"{message}s{end}") for end in ("Request", "Response"))
        service = self.messages.DESCRIPTOR.services_by_name["DRAPlugin"].full_name
        async with grpc.aio.insecure_channel(f"unix:{self.folder}/p/{driver}/dra.sock") as channel:
            call = channel.unary_unary(
                f"/{service}/{method}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            refs = [
                self.messages.Claim(
                    namespace=claim["metadata"]["namespace"],
                    uid=claim["metadata"]["uid"],
                    name=claim["metadata"]["name"],
                )
                for claim in claims
            ]
            return await call(request(claims=refs))
