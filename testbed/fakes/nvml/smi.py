"""A fake nvidia-smi: `compute-policy -i <UUID> --set-timeslice=<n>`, on the state file of the fake NVML.

In: arguments, the file that the environment names. Out: the file changed, a text, a status. Sources: the call is that of
dra-driver-nvidia-gpu 95932046 (cmd/gpu-kubelet-plugin/nvlib.go:883-900, `setTimeSlice`), the numbers those of its sharing.go (`Int`).
Texts: source: none.
"""

import argparse
import os
import sys
from pathlib import Path

from testbed.fakes.nvml import layout
from testbed.fakes.statefile.locked import changing

REFUSES = "APPORTION_FAKE_SMI_REFUSES"
"""Where this is set, its text is printed and nothing is set."""


def main() -> int:
    """Set a time slice. Returns the status."""
    parser = argparse.ArgumentParser(prog="nvidia-smi")
    policy = parser.add_subparsers(required=True).add_parser("compute-policy")
    policy.add_argument("-i", dest="gpu", required=True)
    policy.add_argument("--set-timeslice", type=int, choices=range(4), required=True)
    found = parser.parse_args()
    if REFUSES in os.environ:
        print(os.environ[REFUSES])
        return 3
    with changing(Path(os.environ[layout.VARIABLE]), layout.State) as state:
        for gpu in state.gpu[: state.gpus]:
            if gpu.uuid.decode() == found.gpu and not gpu.gone:
                gpu.time_slice = found.set_timeslice
                return 0
    print(f"No devices were found for {found.gpu}")
    return 6


if __name__ == "__main__":
    sys.exit(main())
