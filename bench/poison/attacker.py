"""The attacker: a user with the right to edit one namespace, who makes the objects of a storm and goes on.

In: a control plane, a namespace, a storm. Out: objects, and counts of what was made, what not, and of the attacks on claims in use.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Self

import aiohttp

from apportion.cluster.kinds import CLAIMS, PODS, VOLUME_CLAIMS
from bench.endtoend.creator import due
from bench.poison.poisons import COSTLY_AT_ONCE, TEMPLATES, Poison, PoisonObject, Storm, costly
from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually

USER: Final = "attacker"
_RENEW_SECONDS: Final = 20.0
"""Between claims with selectors that nobody has seen before."""
_ATTACK_SECONDS: Final = 1.0
_BOUND_WITHIN: Final = 60.0
_RIGHTS: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}"
_BY_POLICY: Final = (403, 422)
"""How the API server answers what an admission policy denies: Forbidden, Invalid."""
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
_FAILURES: Final = (ApiError, aiohttp.ClientError, TimeoutError)


class Attacker:
    """Poisons one namespace."""

    def __init__(self, user: Api, administrator: Api, namespace: str, storm: Storm, rate: float) -> None:
        self._user = user
        self._administrator = administrator
        """For what a tenant cannot do: nodes would report that pods run."""
        self._namespace = namespace
        self._storm = storm
        self._rate = rate
        self._running: set[str] = set()
        self.made: Counter[Poison] = Counter()
        """Objects by poison."""
        self.not_made: Counter[Poison] = Counter()
        """Objects that the API server had no time for."""
        self.attacks = 0
        """How often the attacker tried to clear the finalizers of a claim in use, and the API server answered."""
        self.refused = 0
        """How many of these attempts the API server refused."""

    @classmethod
    @asynccontextmanager
    async def prepared(
        cls, control_plane: ControlPlane, namespace: str, storm: Storm, rate: float
    ) -> AsyncIterator[Self]:
        """Give the user its rights, and make volumes and templates. Raises ApiError."""
        api = control_plane.api
        await _grant(api, namespace)
        for body in storm.templates():
            await api.create(TEMPLATES.path(namespace=namespace), body)
        for kind, body in storm.volumes(namespace):
            await api.create(kind.path(namespace=namespace), body)
        await _bound(api, namespace)
        async with Api.of(control_plane.client_kubeconfig(USER)) as user:
            yield cls(user, api, namespace, storm, rate)

    async def run(self) -> None:
        """Make everything, then new costly claims now and then, and attack claims in use, until cancelled. Raises ApiError."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._make_all())
            if Poison.SELECTOR in self._storm.poisons:
                group.create_task(self._renew())
            if Poison.FINALIZERS in self._storm.poisons:
                group.create_task(self._attack())

    async def _make_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            async for each in due(self._storm.objects(), self._rate):
                group.create_task(self._make(each))

    async def _make(self, each: PoisonObject) -> None:
        try:
            await self._user.create(each.kind.path(namespace=self._namespace), each.body)
        except _FAILURES as error:
            _raise_unless_overloaded(error)
            self.not_made[each.poison] += 1
        else:
            self.made[each.poison] += 1

    async def _renew(self) -> None:
        for number in count(COSTLY_AT_ONCE):
            await asyncio.sleep(_RENEW_SECONDS)
            await self._make(costly(number))

    async def _attack(self) -> None:
        while True:
            await asyncio.sleep(_ATTACK_SECONDS)
            for claim, pod in self._storm.attacked().items():
                try:
                    await self._set_free(claim, pod)
                except _FAILURES as error:
                    _raise_unless_overloaded(error)

    async def _set_free(self, claim: str, pod: str) -> None:
        """Clear the finalizers of a claim and delete it, once it is in use."""
        path = CLAIMS.path(claim, namespace=self._namespace)
        found = await self._user.find(path)
        if found is None or not found.get("status", {}).get("reservedFor"):
            return
        if pod not in self._running:
            status = {"status": {"phase": "Running"}}
            await self._administrator.patch(PODS.path(pod, namespace=self._namespace, sub="status"), status)
            self._running.add(pod)
        try:
            await self._user.patch(path, {"metadata": {"finalizers": []}})
        except ApiError as error:
            if error.status not in _BY_POLICY:
                raise
            self.refused += 1
        self.attacks += 1
        await self._user.delete(path)


def _raise_unless_overloaded(error: Exception) -> None:
    """Raise what the API server will not take later either."""
    if isinstance(error, ApiError) and error.status < _SERVER_ERROR and error.status != _TOO_MANY_REQUESTS:
        raise error


async def _grant(api: Api, namespace: str) -> None:
    """Give the user what a tenant has: the role `edit`, and claims."""
    roles = _RIGHTS.format(namespace=namespace, kind="roles")
    rules = [{"apiGroups": [CLAIMS.group], "resources": [CLAIMS.plural, TEMPLATES.plural], "verbs": ["*"]}]
    await api.create(roles, {"metadata": {"name": USER}, "rules": rules})
    for kind, role in (("ClusterRole", "edit"), ("Role", USER)):
        await api.create(
            _RIGHTS.format(namespace=namespace, kind="rolebindings"),
            {
                "metadata": {"name": f"{USER}-{role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
            },
        )


async def _bound(api: Api, namespace: str) -> None:
    """Wait until controller-manager has bound all volumes."""

    async def phases() -> set[str]:
        found, _ = await api.items(VOLUME_CLAIMS.path(namespace=namespace))
        return {_phase(each) for each in found}

    await eventually(phases, lambda found: found <= {"Bound"}, within=_BOUND_WITHIN)


def _phase(claim: Json) -> str:
    return str(claim.get("status", {}).get("phase"))
