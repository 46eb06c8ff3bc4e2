"""A real node on this machine: kubelet, containerd and runc in their own mounts and process ids."""
