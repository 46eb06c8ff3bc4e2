"""A claim that is reserved for its gated pod with its allocation: who writes it, and what follows where the pod is bound elsewhere."""

from testbed.api import Json
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import GPU, Tenant, devices, gates, pod, request

OTHER = {"h100-a": "h100-b", "h100-b": "h100-a"}


async def make_with_template(installation: Installation, team: Tenant, name: str, **spec: object) -> None:
    """Make a pod whose claim controller-manager makes."""
    template = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request(GPU)]}}}}
    path = f"/apis/resource.k8s.io/v1/namespaces/{team.namespace}/resourceclaimtemplates"
    await installation.cluster.api.create(path, template)
    entry = {"name": "gpu", "resourceClaimTemplateName": name}
    await team.make(pod(name, resourceClaims=[entry], **spec))


async def only_claim(team: Tenant) -> Json:
    found = await team.claims()
    return found[0] if len(found) == 1 else {}


async def test_the_operator_reserves_what_a_template_made(installation: Installation, team: Tenant) -> None:
    """kube-scheduler binds the pod without a write to its claim."""
    await make_with_template(installation, team, "p")
    [running] = await team.running("p")
    claim = await only_claim(team)
    assert [user["uid"] for user in claim["status"]["reservedFor"]] == [running["metadata"]["uid"]]
    [wrote] = [row for row in claim["metadata"]["managedFields"] if "f:reservedFor" in str(row["fieldsV1"])]
    assert wrote["manager"] == "apportion-operator"


async def test_a_pod_that_is_bound_elsewhere_gets_its_devices_there(
    installation: Installation, team: Tenant
) -> None:
    """A scheduler went by a former allocation. Nobody could ever prepare what is on the other node."""
    await make_with_template(installation, team, "p", schedulerName="nobody")

    async def waiting() -> Json:
        made = await team.pod("p")
        return await only_claim(team) if not gates(made) else {}

    claim = await eventually(waiting, devices)
    assert claim["status"]["reservedFor"], "ahead"
    [device] = devices(claim)
    node = OTHER[device.split("/")[0]]
    uid = (await team.pod("p"))["metadata"]["uid"]
    binding = {"metadata": {"name": "p", "uid": uid}, "target": {"kind": "Node", "name": node}}
    await installation.cluster.api.create(f"/api/v1/namespaces/{team.namespace}/pods/p/binding", binding)

    [running] = await team.running("p")
    assert running["spec"]["nodeName"] == node
    assert [each.split("/")[0] for each in devices(await only_claim(team))] == [node]
    await team.event(claim["metadata"]["name"], "GivenBack", "bound to another node")
