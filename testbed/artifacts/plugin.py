"""The kubectl plugin for krew: an archive, and the manifest that names it.

In: the wheel and the lock file. Out: an archive with both and a launcher, which installs them for the user when it is first run; a manifest (https://krew.sigs.k8s.io/docs/developer-guide/).
"""

import hashlib
from typing import Any, Final

from testbed.artifacts.archives import ArchivedFile, tar_gz

NAME: Final = "kubectl-apportion"
_LAUNCHER = """#!/bin/sh
# kubectl apportion: installs the packages beside it for this user when it is first run, with hashes; then runs them.
set -eu
here=$(CDPATH= cd "$(dirname "$(readlink -f "$0")")" && pwd)
place="${XDG_DATA_HOME:-$HOME/.local/share}/apportion/@VERSION@"
if [ ! -x "$place/bin/kubectl-apportion" ]; then
  echo "installing apportion @VERSION@ into $place ..." >&2
  python="${APPORTION_PYTHON:-python3}"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $python is no Python 3.11 or newer; APPORTION_PYTHON names one" >&2; exit 1; }
  rm -rf "$place.new" && "$python" -m venv "$place.new"
  "$place.new/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement "$here/requirements.txt" >&2
  "$place.new/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index "$here/@WHEEL@" >&2
  mkdir -p "$place/bin"
  printf '#!/bin/sh\\nexec "%s.new/bin/python" -m apportion "$@"\\n' "$place" > "$place/bin/.next"
  chmod +x "$place/bin/.next" && mv "$place/bin/.next" "$place/bin/kubectl-apportion"
fi
exec "$place/bin/kubectl-apportion" "$@"
"""
"""The command is there last, so that an installation that was cut short is made anew."""


def archive(wheel: str, content: bytes, lock: bytes, license_: bytes, version: str, seconds: int) -> bytes:
    """Return the plugin's archive."""
    launcher = _LAUNCHER.replace("@VERSION@", version).replace("@WHEEL@", wheel)
    files = {
        NAME: ArchivedFile(launcher.encode(), executable=True),
        wheel: ArchivedFile(content),
        "requirements.txt": ArchivedFile(lock),
        "LICENSE": ArchivedFile(license_),
    }
    return tar_gz(files, seconds)


def manifest(packed: bytes, address: str, homepage: str, version: str) -> dict[str, Any]:
    """Return krew's manifest for an archive that is published at an address."""
    systems = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "apportion"},
        "spec": {
            "version": f"v{version}",
            "homepage": homepage,
            "shortDescription": "Says who holds accelerators, what is free, why a claim waits",
            "description": "Reads the API only: maps of cards and their holders, what is free by model and profile,\n"
            "why a claim or pod waits and what would make it fit, and whether claims would fit.\n",
            "caveats": "Needs Python 3.11 or newer; the first run installs packages below ~/.local/share/apportion.\n",
            "platforms": [
                {
                    "selector": {"matchExpressions": [systems]},
                    "uri": address,
                    "sha256": hashlib.sha256(packed).hexdigest(),
                    "bin": NAME,
                }
            ],
        },
    }
