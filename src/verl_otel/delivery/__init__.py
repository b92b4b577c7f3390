"""How telemetry leaves the process: one bounded queue of encoded bytes, one thread that sends, nothing lost silently.

`core` decides (no clock, thread or I/O), `transports` talk OTLP, `sender` and `gatherer` are the two threads,
`spans`, `logs` and `metrics` turn the SDK's callbacks into bytes, and `pipeline` puts them together.
"""
