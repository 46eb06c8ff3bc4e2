"""The fake DCMI: libdcmi.so with vNPUs, from the C files of this folder."""
