"""Workers that cut and remove partitions as Partition objects ask, with a journal that survives crashes."""
