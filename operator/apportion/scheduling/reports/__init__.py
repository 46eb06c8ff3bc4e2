"""Reports: what a pass tells people about what waits, before it decides."""
