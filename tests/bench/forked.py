"""A module of bench/, or apportion, as a program; what a fork server runs (`testbed.chaos.forkserver`) that has all of bench/ imported.

In: the module and its options, the environment, the files of its output. The process ends with the program's exit status.
"""

import importlib
import os
import pkgutil
import runpy
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any

import bench

for _each in pkgutil.walk_packages(bench.__path__, "bench."):
    importlib.import_module(_each.name)


def run(request: Mapping[str, Any]) -> None:
    """Be the program, in this environment and no other; an error ends it with 1, as it ends the interpreter."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), 1)
    module, *options = request["arguments"]
    sys.argv = [module, *options]
    # What is there already would be warned of; of a package `__main__` is run.
    sys.modules.pop(f"{module}.__main__" if hasattr(sys.modules[module], "__path__") else module, None)
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does with whatever is left
        traceback.print_exc()
        code = 1
    # An interpreter ends when its threads have; a forked child would not wait for them (multiprocessing does the same).
    threading._shutdown()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    raise SystemExit(code)
