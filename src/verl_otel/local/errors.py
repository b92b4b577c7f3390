"""What the embedded backend can't do, in one line for the user."""


class LocalError(RuntimeError):
    """Something that the user can change; the message says what, and what to do."""
