"""What is patched in verl and what is read from it: one file a target, and verl's names nowhere else.

Each file has the same shape: the instrumentor with its table of targets, `read_*` functions that turn verl's objects
into plain dataclasses, and wrappers that start, call, read and stop.
"""
