"""What `python -m testbed` can do, one file per verb."""
