"""Types of names, with the patterns and lengths of the Kubernetes API (resource.k8s.io/v1)."""

from typing import Annotated

from pydantic import Field

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"

DeviceName = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_LABEL}$")]
"""A DNS label."""
DriverName = Annotated[str, Field(min_length=1, max_length=63, pattern=rf"^{_SUBDOMAIN}$")]
"""A DNS subdomain."""
NodeName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{_SUBDOMAIN}$")]
"""A DNS subdomain."""
ClassName = NodeName
"""A DNS subdomain."""
PoolName = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^{_SUBDOMAIN}(/{_SUBDOMAIN})*$")]
"""DNS subdomains separated by slashes."""
ProfileName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
"""A MIG profile (1g.10gb, 1g.10gb+me) or an Ascend vNPU template (vir05_1c_16g)."""
AttributeName = Annotated[
    str,
    Field(max_length=96, pattern=rf"^{_SUBDOMAIN}/[A-Za-z_][A-Za-z0-9_]{{0,31}}$"),
]
"""A qualified attribute name: domain (at most 63 characters), slash, C identifier (at most 32)."""
