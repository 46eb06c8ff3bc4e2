"""Deciding: one demand, the last of the queue together, or a pod group, served or refused with the reasons."""
