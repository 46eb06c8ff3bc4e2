"""What RBAC allows an account, as the API server answers."""

from testbed.controlplane import ControlPlane


async def allowed(
    cluster: ControlPlane, account: str, right: str, *, namespace: str = "", name: str = ""
) -> bool:
    """Ask the API server whether a ServiceAccount may do something, in all namespaces or in one, to all or to one object."""
    verb, _, what = right.partition(" ")
    resource, _, subresource = what.partition("/")
    resource, _, group = resource.partition(".")
    attributes = {
        "namespace": namespace,
        "name": name,
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
    }
    answer = await cluster.api.create(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:apportion-system:{account}",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": attributes,
            },
        },
    )
    return bool(answer["status"]["allowed"])


def named(resource: str, group: str) -> str:
    """Write a rule's resource as in the table above."""
    name, slash, subresource = resource.partition("/")
    return f"{name}.{group}{slash}{subresource}" if group else resource
