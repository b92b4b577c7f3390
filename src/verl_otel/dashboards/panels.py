"""What a panel and a dashboard of ours are, on top of Grafana's own builders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    tempo,
    timeseries,
    trend,
)
from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    VariableRefresh,
)

from verl_otel.dashboards import lanes

TAG: Final = "verl"
RUN: Final = 'verl_run_id=~"$run"'
"""Of the chosen runs."""
REPLICA: Final = f'{RUN},verl_role=~"$role",verl_replica=~"$replica"'
"""Of the chosen replicas of theirs."""
METRICS: Final = DataSourceRef(type_val="prometheus", uid="${metrics}")
TRACES: Final = DataSourceRef(type_val="tempo", uid="${traces}")

SECONDS: Final = "s"
BYTES: Final = "bytes"
SHARE: Final = "percentunit"
TOKENS: Final = "short"
COUNT: Final = "short"
NUMBER: Final = "none"


def quantile(share: float, metric: str, chosen: str = RUN, *, by: str = "", window: str = "15m") -> str:
    """PromQL of a histogram's quantile; `by`: labels to tell apart, `chosen`: what of it."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{{chosen}}}[{window}])))"


def added(metric: str, by: str, chosen: str = RUN, window: str = "5m") -> str:
    """PromQL of what a counter grew by, for each combination of labels."""
    return f"sum by ({by}) (increase({metric}{{{chosen}}}[{window}]))"


@dataclass(frozen=True)
class Query:
    """PromQL, and how its series are called; `exemplars`: of a histogram, with links to traces."""

    expression: str
    legend: str
    exemplars: bool = False


@dataclass(frozen=True)
class Panel:
    """`kind`: lines, stat, states, heat, steps (lines over the training step), traces (TraceQL, in a table) or lanes.

    `height`: 8 is a third of a screen.
    """

    title: str
    unit: str
    good: str
    queries: Sequence[Query]
    kind: str = "lines"
    width: int = 8
    height: int = 8


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


def make(uid: str, title: str, asks: str, rows: Sequence[Row], *, replicas: bool = False) -> Any:
    """A dashboard's builder; `asks`: the question it answers. `replicas`: they can be chosen."""
    made = (
        dashboard.Dashboard(f"verl: {title}")
        .uid(f"verl-{uid}")
        .description(asks)
        .tags([TAG])
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("verl")
            .type(DashboardLinkType.DASHBOARDS)  # type: ignore[arg-type] # the SDK declares an enum's members as text
            .tags([TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(dashboard.DatasourceVariable("metrics").label("Metrics").type("prometheus"))
        .with_variable(dashboard.DatasourceVariable("traces").label("Traces").type("tempo"))
        .with_variable(_choice("run", "Run", "label_values(verl_run_info, verl_run_id)"))
    )
    if replicas:
        made = made.with_variable(_choice("role", "Role", f"label_values(verl_engine_in_flight{{{RUN}}}, verl_role)"))
        replica = f'label_values(verl_engine_in_flight{{{RUN},verl_role=~"$role"}}, verl_replica)'
        made = made.with_variable(_choice("replica", "Replica", replica))
    for row in rows:
        made = made.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            made = made.with_panel(_panel(panel))
    return made


def _choice(name: str, label: str, query: str) -> Any:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(METRICS)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
    )


def _panel(panel: Panel) -> Any:
    made = _KINDS[panel.kind](panel)
    made = made.title(panel.title).description(panel.good).unit(panel.unit).span(panel.width)
    return made.height(panel.height).datasource(TRACES if panel.kind in ("traces", "lanes") else METRICS)


def _targets(made: Any, panel: Panel) -> Any:
    for number, query in enumerate(panel.queries):
        target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend).ref_id(chr(65 + number))
        made = made.with_target(target.exemplar(query.exemplars).datasource(METRICS))
    return made


def _lines(panel: Panel) -> Any:
    legend = (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)  # type: ignore[arg-type]
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    made = timeseries.Panel().legend(legend).fill_opacity(6).line_width(1)
    return _targets(made.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI)), panel)  # type: ignore[arg-type]


def _steps(panel: Panel) -> Any:
    """Over the step: the first query gives it, and the time of the samples joins it with the others."""
    join = DataTransformerConfig(id_val="joinByField", options={"byField": "Time", "mode": "outer"})
    step = Query(f"max(run:verl_step:last{{{RUN}}})", "step")
    asked = Panel(panel.title, panel.unit, panel.good, (step, *panel.queries), panel.kind, panel.width)
    return _targets(trend.Panel().x_field("step").with_transformation(join), asked)


def _stat(panel: Panel) -> Any:
    return _targets(stat.Panel(), panel)


def _states(panel: Panel) -> Any:
    return _targets(statetimeline.Panel().row_height(0.9), panel)


def _heat(panel: Panel) -> Any:
    made = heatmap.Panel()
    for query in panel.queries:
        target = prometheus.Dataquery().expr(query.expression).legend_format("{{le}}").ref_id("A")
        made = made.with_target(target.format("heatmap").datasource(METRICS))
    return made


def _traces(panel: Panel) -> Any:
    made = tables.Panel()
    for number, query in enumerate(panel.queries):
        target = tempo.TempoQuery().query_type("traceql").query(query.expression).limit(50)
        made = made.with_target(target.ref_id(chr(65 + number)).datasource(TRACES))
    return made


def _lanes(panel: Panel) -> Any:
    (query,) = panel.queries
    return lanes.timeline(query.expression, TRACES)


_KINDS: Final[dict[str, Callable[[Panel], Any]]] = {
    "lines": _lines,
    "steps": _steps,
    "stat": _stat,
    "states": _states,
    "heat": _heat,
    "traces": _traces,
    "lanes": _lanes,
}
