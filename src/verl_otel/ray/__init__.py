"""Into Ray's processes and out again: `reach` the workers, carry the `context`, and end the run with `ending`."""
