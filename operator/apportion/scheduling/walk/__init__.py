"""The walk through the queue: who is asked, in which order, and who is not asked because nothing changed."""
