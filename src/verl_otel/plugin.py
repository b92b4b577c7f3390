"""verl's own door (entry point group `verl.plugins`): importing this instruments, if VERL_OTEL_ENABLED says so.

verl >= 0.9.0 imports it at `import verl`, in every process. Not enabled, it does nothing and imports nothing.
"""

import os

if os.environ.get("VERL_OTEL_ENABLED"):
    from verl_otel.settings import Settings

    if Settings.read().enabled:
        from verl_otel import instrument

        instrument()
