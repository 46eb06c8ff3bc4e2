"""What users write: Partition, PartitionLayout, AllocationPolicy as pydantic models; they make crds/."""
