"""What is recorded: run, steps, phases, worker calls, rollouts, scalars. Knows OpenTelemetry, not verl."""
