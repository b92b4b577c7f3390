"""`python -m verl_otel.cli`."""

from verl_otel.cli import main

main()
