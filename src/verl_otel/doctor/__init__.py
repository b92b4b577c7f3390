"""Why is this panel empty? Each link from verl to the backend, tested in turn; one module a link.

A check gives findings and never raises for what it looks at. Nothing of verl, Ray or torch is imported, but for Ray
where a cluster is asked.
"""
