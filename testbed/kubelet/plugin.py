"""One registered DRA plugin, as kubelet sees it.

In: its registration socket. Out: prepare and unprepare calls to its endpoint.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message

from apportion.agent.proto import dra_v1_pb2, dra_v1beta1_pb2, registration_pb2
from testbed.errors import TestbedError

# The kubelet's own limits: pluginmanager asks for one second, dra's client waits for 45.
_INFO_SECONDS = 1.0
CALL_SECONDS: Final = 45.0
_VERSIONS: Mapping[str, Any] = {"v1.DRAPlugin": dra_v1_pb2, "v1beta1.DRAPlugin": dra_v1beta1_pb2}
_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.client_idle_timeout_ms", 2**31 - 1),  # an idle connection must still show that the plugin died
    ("grpc.use_local_subchannel_pool", 1),  # a new plugin under an old path gets a connection of its own
]


class PluginError(TestbedError):
    """A plugin does not answer, answers wrongly, or refuses a claim."""


@dataclass(frozen=True, slots=True, order=True)
class ClaimKey:
    """Namespace, name and UID of a claim, as in the gRPC messages."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """One device that a plugin prepared, for these requests of the claim (none named: for all)."""

    driver: str
    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...]


class Plugin:
    """A plugin whose registration succeeded."""

    def __init__(self, *, driver: str, version: str, endpoint: Path, channel: grpc.aio.Channel) -> None:
        self.driver = driver
        self.version = version
        self.endpoint = endpoint
        self.connected = False
        self._messages = _VERSIONS[version]
        self._channel = channel

    @classmethod
    async def register(cls, socket: Path) -> Self:
        """Read the plugin's info from its registration socket, check it, connect, and notify the plugin of the result.

        Raises PluginError; the whole sequence may be tried again.
        """
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            info = await _ask(
                channel, "GetInfo", registration_pb2.InfoRequest(), registration_pb2.PluginInfo, socket
            )
            try:
                plugin = await cls._accept(info)
            except PluginError as error:
                await _notify(channel, socket, error=str(error))
                raise
            try:
                await _notify(channel, socket)
            except PluginError:
                await plugin.close()
                raise
            return plugin

    @classmethod
    async def _accept(cls, info: registration_pb2.PluginInfo) -> Self:
        if info.type != "DRAPlugin":
            raise PluginError(f"plugin type {info.type!r} of {info.name!r} is not DRAPlugin")
        # The first that both sides know, in the plugin's order: so the kubelet chooses.
        version = next((each for each in info.supported_versions if each in _VERSIONS), None)
        if version is None:
            raise PluginError(
                f"driver {info.name}: none of the versions {list(info.supported_versions)} is known"
            )
        channel = grpc.aio.insecure_channel(f"unix:{info.endpoint}", options=_OPTIONS)
        plugin = cls(driver=info.name, version=version, endpoint=Path(info.endpoint), channel=channel)
        try:
            async with asyncio.timeout(_INFO_SECONDS):
                await channel.channel_ready()
        except TimeoutError:
            await plugin.close()
            raise PluginError(f"driver {info.name}: its endpoint {info.endpoint} does not answer") from None
        plugin.connected = True
        return plugin

    async def close(self) -> None:
        """Drop the connection."""
        self.connected = False
        await self._channel.close()

    async def follow(self, changed: asyncio.Event) -> None:
        """Keep `connected` up to date for ever; set `changed` whenever it changes."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if self.connected != (state is grpc.ChannelConnectivity.READY):
                self.connected = not self.connected
                changed.set()
            await self._channel.wait_for_state_change(state)

    async def prepare(
        self, claims: Iterable[ClaimKey]
    ) -> dict[str, tuple[PreparedDevice, ...] | PluginError]:
        """NodePrepareResources: by claim UID, the devices or why there are none. Raises PluginError for the call."""
        answer = await self._call("Prepare", claims)
        return {
            uid: PluginError(one.error)
            if one.error
            else tuple(
                PreparedDevice(
                    self.driver,
                    tuple(device.request_names),
                    device.pool_name,
                    device.device_name,
                    tuple(device.cdi_device_ids),
                )
                for device in one.devices
            )
            for uid, one in answer.items()
        }

    async def unprepare(self, claims: Iterable[ClaimKey]) -> dict[str, PluginError | None]:
        """NodeUnprepareResources: by claim UID, None or why not. Raises PluginError for the call as a whole."""
        answer = await self._call("Unprepare", claims)
        return {uid: PluginError(one.error) if one.error else None for uid, one in answer.items()}

    async def _call(self, verb: str, claims: Iterable[ClaimKey]) -> Mapping[str, Any]:
        method = f"Node{verb}Resources"
        messages = self._messages
        asked = [messages.Claim(namespace=each.namespace, name=each.name, uid=each.uid) for each in claims]
        package = messages.DESCRIPTOR.package
        call = self._channel.unary_unary(
            f"/{package}.DRAPlugin/{method}",
            request_serializer=_serialize,
            response_deserializer=getattr(messages, f"{method}Response").FromString,
        )
        try:
            response = await call(getattr(messages, f"{method}Request")(claims=asked), timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise PluginError(
                f"driver {self.driver}: {method}: {error.code().name}: {error.details()}"
            ) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # grpc.aio cancels the calls of a channel that is closed, which is not the end of the pod's worker.
            raise PluginError(f"driver {self.driver}: {method}: the plugin has left") from None
        answer: Mapping[str, Any] = response.claims
        uids = {each.uid for each in asked}
        if skipped := len(uids - set(answer)):
            raise PluginError(f"driver {self.driver}: {method} skipped {skipped} ResourceClaims")
        if unknown := set(answer) - uids:
            raise PluginError(f"driver {self.driver}: {method} answered for unknown claims {sorted(unknown)}")
        return answer


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


async def _ask(
    channel: grpc.aio.Channel, method: str, request: Message, answer: type[Message], socket: Path
) -> Any:
    call = channel.unary_unary(
        f"/pluginregistration.Registration/{method}",
        request_serializer=_serialize,
        response_deserializer=answer.FromString,
    )
    try:
        return await call(request, timeout=_INFO_SECONDS)
    except grpc.aio.AioRpcError as error:
        raise PluginError(f"{socket.name}: {method}: {error.code().name}: {error.details()}") from error


async def _notify(channel: grpc.aio.Channel, socket: Path, *, error: str = "") -> None:
    status = registration_pb2.RegistrationStatus(plugin_registered=not error, error=error)
    # A failed notification must not hide the failure that it is about.
    ignored = (PluginError,) if error else ()
    with suppress(*ignored):
        await _ask(
            channel, "NotifyRegistrationStatus", status, registration_pb2.RegistrationStatusResponse, socket
        )
