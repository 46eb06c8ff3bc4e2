"""Semantic versions in CEL (apiserver `library/semverlib.go`)."""

from apportion.cel.library.functions import declare, first, succeeds
from apportion.cel.values import CelFailure
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput


def semver(text: str, tolerant: bool = False) -> Semver:  # noqa: FBT001, FBT002 - a positional argument of CEL's
    """Read a version; `tolerant` allows a leading "v", leading zeros, and a missing minor or patch number."""
    try:
        return Semver.parse(_normalized(text) if tolerant else text)
    except BrokenInput as error:
        raise CelFailure(str(error)) from None


def _normalized(text: str) -> str:
    """Complete a shortened or zero-padded version; raises CelFailure for a short one with pre-release or build."""
    parts = [_trimmed(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if any(mark in parts[-1] for mark in "+-"):
            raise CelFailure("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _trimmed(part: str) -> str:
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part and part[0] in "0123456789" else "0" + part


def _compare(one: Semver, other: Semver) -> int:
    return (one.key > other.key) - (one.key < other.key)


OVERLOADS = (
    declare("semver(string) -> kubernetes.Semver", semver, first),
    declare("semver(string, bool) -> kubernetes.Semver", semver, first),
    declare("isSemver(string) -> bool", succeeds(semver), first),
    declare("isSemver(string, bool) -> bool", succeeds(semver), first),
    declare("kubernetes.Semver major() -> int", lambda v: v.major),
    declare("kubernetes.Semver minor() -> int", lambda v: v.minor),
    declare("kubernetes.Semver patch() -> int", lambda v: v.patch),
    declare("kubernetes.Semver isGreaterThan(kubernetes.Semver) -> bool", lambda a, b: a.key > b.key),
    declare("kubernetes.Semver isLessThan(kubernetes.Semver) -> bool", lambda a, b: a.key < b.key),
    declare("kubernetes.Semver compareTo(kubernetes.Semver) -> int", _compare),
)
