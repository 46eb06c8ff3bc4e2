"""The gRPC services that kubelet calls, as handlers for grpc.aio.

In: a preparer, a health feed. Out: generic handlers for `DRAPlugin` (v1, v1beta1), `DRAResourceHealth` (v1, v1alpha1) and
`Registration`. Every claim of a call gets its own answer; only a failure of the protocol is an RPC error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import ModuleType
from typing import Any

import grpc
import structlog

from apportion.agent.kubelet.calls import Calls
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.health import HealthFeed
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.proto import (
    dra_v1_pb2,
    dra_v1beta1_pb2,
    health_v1_pb2,
    health_v1alpha1_pb2,
    registration_pb2,
)
from apportion.errors import ApportionError

VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""In order of preference: kubelet takes the first that it supports."""
_log = structlog.get_logger()
_MODULES: tuple[ModuleType, ...] = (dra_v1_pb2, dra_v1beta1_pb2)
_HEALTH_MODULES: tuple[ModuleType, ...] = (health_v1_pb2, health_v1alpha1_pb2)


def plugin_handlers(
    preparer: Preparer, health: HealthFeed, calls: Calls
) -> tuple[grpc.GenericRpcHandler, ...]:
    """Return the DRA plugin and its health stream, in every version that kubelet may speak; `calls` gets those under way."""
    return (
        *(_plugin(preparer, messages, calls) for messages in _MODULES),
        *(_health(health, messages) for messages in _HEALTH_MODULES),
    )


def registration_handler(
    driver: str, endpoint: str, notified: Callable[[bool, str], None]
) -> grpc.GenericRpcHandler:
    """Return the registration service; `notified(registered, error)` gets kubelet's answer."""

    async def get_info(_request: object, _context: object) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(
            type="DRAPlugin", name=driver, endpoint=endpoint, supported_versions=VERSIONS
        )

    async def notify(
        request: registration_pb2.RegistrationStatus, _context: object
    ) -> registration_pb2.RegistrationStatusResponse:
        notified(request.plugin_registered, request.error)
        return registration_pb2.RegistrationStatusResponse()

    return grpc.method_handlers_generic_handler(
        "pluginregistration.Registration",
        {
            "GetInfo": _unary(get_info, registration_pb2.InfoRequest),
            "NotifyRegistrationStatus": _unary(notify, registration_pb2.RegistrationStatus),
        },
    )


def _plugin(preparer: Preparer, messages: ModuleType, calls: Calls) -> grpc.GenericRpcHandler:
    async def prepare(request: Any, _context: object) -> Any:
        calls.note()
        answers = await asyncio.gather(*(one_prepare(ref) for ref in _refs(request.claims)))
        return messages.NodePrepareResourcesResponse(claims=dict(answers))

    async def unprepare(request: Any, _context: object) -> Any:
        calls.note()
        answers = await asyncio.gather(*(one_unprepare(ref) for ref in _refs(request.claims)))
        return messages.NodeUnprepareResourcesResponse(claims=dict(answers))

    async def one_prepare(ref: ClaimRef) -> tuple[str, Any]:
        answer = messages.NodePrepareResourceResponse
        try:
            calls.check()
            devices = await preparer.prepare(ref)
        except ApportionError as error:
            _log.warning("claim.not_prepared", claim=ref.key, driver=preparer.driver, error=str(error))
            return ref.uid, answer(error=str(error))
        return ref.uid, answer(
            devices=[
                messages.Device(
                    request_names=device.requests,
                    pool_name=device.pool,
                    device_name=device.device,
                    cdi_device_ids=[device.cdi],
                    # v1beta1 has no such field.
                    **({"share_id": device.share.id} if device.share and messages is dra_v1_pb2 else {}),
                )
                for device in devices
            ]
        )

    async def one_unprepare(ref: ClaimRef) -> tuple[str, Any]:
        answer = messages.NodeUnprepareResourceResponse
        try:
            await preparer.unprepare(ref)
        except ApportionError as error:
            _log.warning("claim.not_unprepared", claim=ref.key, driver=preparer.driver, error=str(error))
            return ref.uid, answer(error=str(error))
        return ref.uid, answer()

    service = messages.DESCRIPTOR.services_by_name["DRAPlugin"].full_name
    return grpc.method_handlers_generic_handler(
        service,
        {
            "NodePrepareResources": _unary(prepare, messages.NodePrepareResourcesRequest),
            "NodeUnprepareResources": _unary(unprepare, messages.NodeUnprepareResourcesRequest),
        },
    )


def _health(feed: HealthFeed, messages: ModuleType) -> grpc.GenericRpcHandler:
    # grpc asks the function itself whether it is a generator.
    async def watch(_request: object, _context: object) -> AsyncIterator[Any]:
        async for answer in feed.lists(messages):
            yield answer

    service = messages.DESCRIPTOR.services_by_name["DRAResourceHealth"].full_name
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_stream_rpc_method_handler(
        watch,
        request_deserializer=messages.NodeWatchResourcesRequest.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )
    return grpc.method_handlers_generic_handler(service, {"NodeWatchResources": handler})


def _refs(claims: Iterable[Any]) -> list[ClaimRef]:
    return [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in claims]


def _unary(
    call: Callable[[Any, Any], Awaitable[Any]], request: type[Any]
) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=request.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )
