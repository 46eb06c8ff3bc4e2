"""Which Partition objects exist and who holds them; layouts with their DeviceClasses; statuses."""
