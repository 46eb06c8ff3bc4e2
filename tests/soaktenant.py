"""A tenant that asks for what the soak asks for.

In: an installation. Out: a managed namespace with a ResourceClaimTemplate for each of `specs.SPECS`, under its name.
"""

from testbed.installation import Installation
from testbed.soak import specs
from tests.e2e.tenant import MANAGED, Tenant


async def soak_tenant(installation: Installation, prefix: str) -> Tenant:
    """Make the namespace, whose name begins with `prefix`, and its templates."""
    tenant = Tenant(installation, await installation.cluster.make_namespace(prefix, MANAGED))
    for template in specs.templates():
        await tenant.make({"kind": "ResourceClaimTemplate", **template})
    return tenant
