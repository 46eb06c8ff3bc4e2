"""The life of a partition on this node: from a Partition object to the hardware and back, whatever crashes between."""
