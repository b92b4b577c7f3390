"""verl's own door (entry point group `verl.plugins`): importing this instruments, if VERL_OTEL_ENABLED says so.

verl >= 0.9.0 imports it at `import verl`, in every process. Installed but not enabled it does nothing at all.
"""

import os

if os.environ.get("VERL_OTEL_ENABLED", "").strip().lower() in ("true", "1", "yes", "on"):
    from verl_otel import instrument

    instrument()
