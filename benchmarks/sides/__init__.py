"""Programs that are measured, each in a process of its own, commanded by lines of JSON (see `children`)."""
