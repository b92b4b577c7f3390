"""What the tools of `tools.py` say and raise, and what the model calls one that isn't there."""

OUTPUT_MARK = "MARK-OF-AN-OUTPUT"
ERROR_MARK = "MARK-OF-AN-ERROR"
UNKNOWN_MARK = "MARK_OF_A_NAME"
