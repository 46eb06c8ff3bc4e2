"""resourceVersions, which are compared as numbers."""

_LONGEST = 100
"""Digits; etcd's have 19. Python reads no number of more than 4300."""


def number(version: str) -> int:
    """Return a resourceVersion as the number that it is since Kubernetes 1.35 (KEP-5504); 0 when it is none."""
    return int(version) if len(version) <= _LONGEST and version.isdecimal() else 0
