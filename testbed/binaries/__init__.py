"""Where the programs of control planes, nodes and tests come from: this machine, a cache, a release site, a build, Debian's packages."""

from testbed.binaries.binaries import Binaries, provide

__all__ = ["Binaries", "provide"]
