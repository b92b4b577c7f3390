"""verl's own door (entry point group `verl.plugins`): importing this instruments, if VERL_OTEL_ENABLED says so.

verl >= 0.9.0 imports it at `import verl`, in every process. Installed but not enabled it does nothing at all.
"""

from verl_otel.settings import peek

if peek("enabled"):
    from verl_otel import instrument

    instrument()
