"""What Prometheus has no data for, of all that panels and rules ask it, but for what is expected."""

from verl_otel.stack.panels import panel_queries, why_empty


def panels_without_data(store, when, excused=()):
    """(dashboard, title, PromQL) of each panel's query that has none at `when`, s since the epoch, for no known reason.

    `excused`: parts of queries that can't have any, beside those of the package's own table.
    """
    return {
        (one.board, one.title, one.expression)
        for one in panel_queries()
        if not _is_expected(one.expression, excused) and not store.query(one.expression, time=when)
    }


def rules_without_data(store, when, excused=()):
    """(rule, selector) of each series that a rule reads and of which there was none in the hour before `when`.

    An alert that doesn't fire has no result; but what it looks at must be there.
    """
    return {
        (rule["name"], selector)
        for group in store.get("rules")["groups"]
        for rule in group["rules"]
        for selector in _selectors(store.get("parse_query", query=rule["query"]))
        if not _is_expected(selector, excused) and not store.query(f"last_over_time({selector}[1h])", time=when)
    }


def _is_expected(expression, excused):
    return why_empty(expression) is not None or any(one in expression for one in excused)


def _selectors(node):
    """The vectors and ranges of a query, as selectors, from Prometheus' own syntax tree."""
    if isinstance(node, list):
        return {found for one in node for found in _selectors(one)}
    if not isinstance(node, dict):
        return set()
    if node.get("type") in ("vectorSelector", "matrixSelector"):
        matchers = ",".join(f"{one['name']}{one['type']}{_quoted(one['value'])}" for one in node["matchers"])
        return {f"{{{matchers}}}"}
    return {found for one in node.values() for found in _selectors(one)}


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
