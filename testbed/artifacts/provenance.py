"""Where the files come from: an in-toto statement with SLSA provenance (https://slsa.dev/spec/v1.0/provenance).

In: digests of the files, the commit, what the maker was told. Out: the statement, not signed: who publishes it signs it (docs/release.md). It says no time and no machine, so
that two runs say the same.
"""

from collections.abc import Mapping
from typing import Any

from testbed.artifacts.commit import Commit

_BUILD = "urn:apportion:artifacts:v1"


def provenance(
    files: Mapping[str, str], commit: Commit, parameters: Mapping[str, str], materials: Mapping[str, str]
) -> dict[str, Any]:
    """Return the statement; `files` and `materials` are SHA-256 digests by name."""
    source = {"uri": f"git+{parameters['homepage']}", "digest": {"gitCommit": commit.digest}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(files.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": dict(parameters),
                "resolvedDependencies": [
                    source,
                    *(
                        {"name": name, "digest": {"sha256": digest}}
                        for name, digest in sorted(materials.items())
                    ),
                ],
            },
            "runDetails": {"builder": {"id": _BUILD}},
        },
    }
