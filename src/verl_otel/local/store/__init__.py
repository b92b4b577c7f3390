"""Runs on disk: a DuckDB file for each, written from the journal, read while it is written."""
