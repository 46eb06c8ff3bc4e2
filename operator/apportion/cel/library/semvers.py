"""Semantic versions in CEL (apiserver `library/semverlib.go`)."""

from apportion.cel.functions import declare, first
from apportion.cel.values import CelFailure
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput


def semver(text: str, tolerant: bool = False) -> Semver:  # noqa: FBT001, FBT002 - a positional argument of CEL's
    """Read a version; `tolerant` allows a "v" in front, leading zeros, and leaving out minor and patch."""
    try:
        return Semver.parse(normalized(text) if tolerant else text)
    except BrokenInput as error:
        raise CelFailure(str(error)) from None


def is_semver(text: str, tolerant: bool = False) -> bool:  # noqa: FBT001, FBT002
    """Say whether a text is a version."""
    try:
        semver(text, tolerant)
    except CelFailure:
        return False
    return True


def normalized(text: str) -> str:
    """Return a full version for one that is shortened or padded; raises CelFailure when it cannot be one."""
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
    declare("isSemver(string) -> bool", is_semver, first),
    declare("isSemver(string, bool) -> bool", is_semver, first),
    declare("kubernetes.Semver major() -> int", lambda v: v.major),
    declare("kubernetes.Semver minor() -> int", lambda v: v.minor),
    declare("kubernetes.Semver patch() -> int", lambda v: v.patch),
    declare("kubernetes.Semver isGreaterThan(kubernetes.Semver) -> bool", lambda a, b: a.key > b.key),
    declare("kubernetes.Semver isLessThan(kubernetes.Semver) -> bool", lambda a, b: a.key < b.key),
    declare("kubernetes.Semver compareTo(kubernetes.Semver) -> int", _compare),
)
