"""Questions to the database of one run, a file each: a cursor and plain values in, what the API answers out.

Nothing here writes, nothing knows of HTTP. Times in are ns or steps as the names say; times out are ms since the epoch.
"""
