"""The version of the Ascend driver, as a semantic version.

In: a session, or a text. Out: a version; None where the driver does not tell one that can be read.
"""

import re
from ctypes import c_char

from apportion.agent.devices.ascend.session import Session
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput


def driver_version(session: Session) -> Semver | None:
    """Ask the driver for its version."""
    out = (c_char * 64)()
    if session.ask("dcmi_get_driver_version", out, len(out)) != 0:
        return None
    return version_of(out.value.decode(errors="replace"))


def version_of(text: str) -> Semver | None:
    """Read a driver's version: `24.1.rc3` -> 24.1.0-rc3, `25.0.rc1.1` -> 25.0.0-rc1.1, `23.0.7` -> 23.0.7."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.?([A-Za-z][\w.]*))?", text)
    if found is None:
        return None
    major, minor, patch, rest = found.groups()
    tail = "-" + rest.replace("_", "-").strip(".") if rest else ""
    try:
        return Semver.parse(f"{int(major)}.{int(minor)}.{int(patch or 0)}{tail.lower()}")
    except BrokenInput:
        return Semver.parse(f"{int(major)}.{int(minor)}.{int(patch or 0)}")
