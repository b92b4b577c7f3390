"""Bridges for verl on CPU, through verl's and vLLM's own plug-in points. Only for demonstrations and tests."""
