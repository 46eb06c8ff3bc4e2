"""resourceVersions, which are compared as numbers."""


def number(version: str) -> int:
    """Return a resourceVersion as the number that it is since Kubernetes 1.35 (KEP-5504); 0 when it is none."""
    return int(version) if version.isdecimal() else 0
