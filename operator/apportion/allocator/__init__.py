"""Choose devices for claims. Pure: state and demand in, decision or refusal out; no clock, no I/O."""
