"""Members: keep a set of UIDs in step with what is known about each."""


def belong(members: set[str], uid: str, *, belongs: bool) -> None:
    """Let a UID be in the set, or not."""
    if belongs:
        members.add(uid)
    else:
        members.discard(uid)
