"""What the fake NVML takes for true about the real one, each with its source.

In: nothing. Out: rows; `where` is the function of the C files, or the method of `FakeNvml`, that does so. A row whose source begins with
"none" is a belief that no source was found for: a real card may differ. Sources: NVML nvml.h of NVIDIA/go-nvml 2f9e261 (gen/nvml, lines),
OGK NVIDIA/open-gpu-kernel-modules 595.45.04, H200 what a real one
did with driver 580.159.04 (docs/hardware.md, recorded/h200-580.json; an H100 did and answered the same), DRV kubernetes-sigs/dra-driver-nvidia-gpu 95932046, MIG the MIG User Guide.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """One belief."""

    where: str
    says: str
    source: str


FACTS = (
    Fact(
        "nvmlInitWithFlags", "a library of another version than the module's is refused with 18", "NVML 1316"
    ),
    Fact(
        "nvmlInitWithFlags",
        "a process keeps the library that it loaded first",
        "none; dlopen(3) returns the library that is loaded under the same soname",
    ),
    Fact("held", "a session keeps the module from being unloaded", "delete_module(2), EWOULDBLOCK"),
    Fact("nvmlShutdown", "the end of the last session closes the device files", "H200"),
    Fact("listens", "but for those of GPUs whose events go to a set that was not freed before", "H200"),
    Fact("exchange", "an exchange of the module resets every GPU", "none; MIG: instances are not persistent"),
    Fact("resolve", "a handle of a GPU that has left answers as a lost one", "none, as to the code"),
    Fact(
        "index_of", "an index is a place in the order of PCI addresses", "NVML at nvmlDeviceGetHandleByIndex"
    ),
    Fact("index_of", "GPUs leave the list without a reboot", "NVIDIA/NVSentinel issue 684"),
    Fact("index_of", "an open session sees at once that a GPU has left", "none"),
    Fact(
        "pids_out",
        "processes outside the caller's PID namespace are left out",
        "OGK gpu_rmapi.c:811-818, 978; H200",
    ),
    Fact("pci_out", "bus ids have eight digits of domain, in capitals", "NVML at nvmlPciInfo_t"),
    Fact("nvmlDeviceGetMemoryInfo", "a GPU without memory of its own refuses", "DRV issues 1073, 1115"),
    Fact("bind_anew", "a new mode may bind the GPU anew, and its minor changes", "NVML 12755"),
    Fact("bind_anew", "a GPU that is bound takes the lowest free minor", "OGK kernel-open/nvidia/nv.c"),
    Fact("nvmlDeviceSetMigMode", "before Hopper the mode waits for a reset", "MIG, Getting Started with MIG"),
    Fact("nvmlDeviceSetMigMode", "passed through, a GPU wants a reset for it", "NVML 12758"),
    Fact("nvmlDeviceSetMigMode", "a mode that is refused as in use stays pending", "MIG, Enable MIG mode"),
    Fact("nvmlDeviceSetMigMode", "a vGPU guest cannot switch it", "none; DRV nvlib.go:1517 refuses to try"),
    Fact("reboot", "the mode survives a reboot on Ampere only", "MIG, Getting Started with MIG"),
    Fact("fill_v2", "a versioned profile query wants MIG mode on", "NVML 12855"),
    Fact("nvmlDeviceGetGpuInstanceProfileInfo", "the one without a version does not", "NVML 12815"),
    Fact(
        "versioned_anytime",
        "some drivers answer the versioned one with the mode off",
        "H200; DRV asks so on Hopper and later",
    ),
    Fact("resolve", "a handle ends with its session", "H200"),
    Fact("nvmlDeviceGetGpuInstances", "without MIG mode there are none, and that is no refusal", "H200"),
    Fact("nvmlDeviceGetMigDeviceHandleByIndex", "without MIG mode nothing is found", "H200"),
    Fact("no_link", "a link that a GPU does not have is refused as one that leads nowhere", "H200"),
    Fact("nvmlDeviceGetSupportedEventTypes", "all types of the library's version", "H200"),
    Fact("nvmlDeviceGetAddressingMode", "a GPU with memory of its own says that it has none", "H200"),
    Fact(
        "rename", "another version of the driver names profiles otherwise", "DRV: GB200, 1g.24gb and 1g.23gb"
    ),
    Fact(
        "by_id",
        "constants only find a profile, its id is what other calls take",
        "NVML nvmlGpuInstanceProfileInfo_t",
    ),
    Fact(
        "admits",
        "whatever is missing, the refusal is INSUFFICIENT_RESOURCES",
        "MIG, examples; the rest: none",
    ),
    Fact("free_id", "ids of instances are used again at once", "none"),
    Fact(
        "free_index",
        "the list of MIG devices has holes",
        "NVML 13437",
    ),
    Fact("free_index", "MIG devices keep their index while they live", "none"),
    Fact(
        "resolve", "a handle of what was destroyed finds nothing", "none; NVML 13417: handles may be reused"
    ),
    Fact(
        "nvmlDeviceCreateGpuInstance",
        "without a place the last one is taken first",
        "MIG: 19,19,14,9 does not fit",
    ),
    Fact("nvmlGpuInstanceDestroy", "one with a compute instance is in use", "NVML nvmlGpuInstanceDestroy"),
    Fact("nvmlEventSetWait_v2", "events from before the set do not come", "NVML 9894"),
    Fact(
        "recover",
        "XID 154 says that the wanted recovery is another one, also when none is wanted any more",
        "NVIDIA/NVSentinel pull request 669 has the kernel's line; as an event of NVML: none",
    ),
    Fact("nvmlDeviceGetFieldValues", "a field that the driver does not know is refused by itself", "none"),
    Fact(
        "xid",
        "an error that is attributable to an instance names it, others 0xFFFFFFFF",
        "NVML 3231-3236; H200 without instances",
    ),
    Fact(
        "ecc",
        "the GPU's volatile counter has contained errors too",
        "none; NVIDIA GPU Memory Error Management counts uncorrectable errors",
    ),
    Fact(
        "xid",
        "a contained error may come several times, once for each channel of the instance",
        "OGK: RC_ALL_COMPUTE_CHANNELS_IN_SPECIFIC_PARTITION; one event each: none",
    ),
    Fact("nvmlDeviceGetGpuFabricInfoV", "before Hopper there is no such question", "NVML 7843"),
    Fact("nvmlDeviceGetGpuFabricInfoV", "the status counts when the state is completed", "NVML 3816"),
    Fact(
        "fabric",
        "a fabric of one node has a cluster UUID of zeros",
        "DRV cmd/compute-domain-kubelet-plugin/nvlib.go:336",
    ),
    Fact(
        "nvmlDeviceSetComputeMode",
        "it takes effect at once and does not outlive a reboot",
        "NVML at nvmlDeviceSetComputeMode",
    ),
    Fact("nvmlDeviceSetComputeMode", "the mode that was removed is refused", "none, as to the code"),
    Fact(
        "shared", "a time slice is set by nvidia-smi, 0 to 3", "DRV nvlib.go:883, sharing.go:171 of its API"
    ),
    Fact("shared", "a time slice does not outlive a reset", "none"),
    Fact("hang", "a call may take seconds, or never return", "none; DRV reports look-ups of ten seconds"),
    Fact(
        "lose",
        "a lost GPU refuses every call with 15",
        "NVML 1313; others answer 999 (koordinator issue 2706)",
    ),
)
