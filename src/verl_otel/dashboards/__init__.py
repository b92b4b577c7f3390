"""Grafana dashboards as code: `python -m verl_otel.dashboards FOLDER` writes them as JSON.

One file a dashboard; what a panel is stands in `panels`. Every panel has a unit, a description that says what good
looks like, and the data source as a variable.
"""
