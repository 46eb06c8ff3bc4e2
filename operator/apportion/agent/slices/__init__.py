"""From what the hardware has to the ResourceSlices that the cluster sees."""
