"""Create a container without a system call filter: `python runcwrapper.py RUNC ARGUMENT...`, an OCI runtime for `create`.

kubelet asks for containerd's default filter for every sandbox, and a runc that was built without libseccomp refuses that. The
tests of these nodes do not depend on the filter.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Take the filter out of the bundle's config.json, and become runc."""
    runc, *arguments = sys.argv[1:]
    config = Path(arguments[arguments.index("--bundle") + 1], "config.json")
    spec = json.loads(config.read_text())
    if spec.get("linux", {}).pop("seccomp", None) is not None:
        config.write_text(json.dumps(spec))
    os.execv(runc, [runc, *arguments])  # noqa: S606 - as containerd asked


if __name__ == "__main__":
    main()
