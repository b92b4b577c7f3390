"""Receiving telemetry on this machine, without a collector: for the demo, the tests, and people who have none."""
