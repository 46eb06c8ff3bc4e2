"""A Python program in a process of its own that finds a fake library as the driver's.

In: a fake, a script. Out: the value of the script's variable `answer`.
"""

import json
import os
import subprocess
import sys
from typing import Any

from testbed.fakes.driver import FakeDriver


def run(fake: FakeDriver[Any], script: str, code: int) -> Any:
    """Run a script; it must end with this exit code. Returns None unless that is 0."""
    done = subprocess.run(
        [sys.executable, "-c", f"answer = None\n{script}\nimport json\nprint(json.dumps(answer))"],
        env=os.environ | fake.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else None
