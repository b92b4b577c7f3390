"""A row for each rank and replica, from the spans that name it: Tempo's table of spans, made into a state timeline.

Tempo gives a span's start and duration; the timeline wants the end, and one frame a row, called as the row.
"""

from typing import Any, Final

from grafana_foundation_sdk.builders import statetimeline, tempo
from grafana_foundation_sdk.models.dashboard import (
    DashboardRegexMapOptions,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    RegexMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.tempo import SearchTableType

LANE: Final = "verl.lane"
# A replica's busy time is a trace each 10 s; of a trace Tempo gives no more spans than 100 unless it is set up to.
_TRACES: Final = 5000
_SPANS_OF_A_TRACE: Final = 100
_START, _END, _NAME, _MILLISECONDS = "Start time", "End time", "Name", "Milliseconds"
_STEPS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (
        "calculateField",
        {
            "mode": "binary",
            "alias": _MILLISECONDS,
            "binary": {
                "left": {"matcher": {"id": "byName", "options": "Duration"}},
                "operator": "/",
                "right": {"fixed": "1000000"},
            },
        },
    ),
    (
        "calculateField",
        {"mode": "reduceRow", "alias": _END, "reduce": {"include": [_START, _MILLISECONDS], "reducer": "sum"}},
    ),
    ("convertFieldType", {"conversions": [{"targetField": _END, "destinationType": "time"}]}),
    ("filterFieldsByName", {"include": {"names": [_START, _END, _NAME, LANE]}}),
    ("sortBy", {"sort": [{"field": LANE}]}),
    ("partitionByValues", {"fields": [LANE], "keepFields": False, "naming": {"asLabels": False}}),
)
_KIND: Final = r"verl\.(?:phase\.|worker\.|replica\.)?"
_COLORS: Final = (
    ("(gen|generate_sequences|busy)", "blue"),
    ("(update_actor|update_critic|train_.*)", "orange"),
    ("(.*log_prob|ref|values|compute_values|infer_batch)", "purple"),
    ("(update_weights|.*checkpoint.*|sleep|wake_up|clear_.*|abort_.*|resume_.*|release)", "yellow"),
    ("(testing|validate)", "green"),
    ("(.*)", "#808080"),
)
"""Alike for what is alike in a trainer's, a rank's and a replica's row; the first that fits counts."""


def timeline(query: str, source: DataSourceRef) -> Any:
    """A panel's builder; `query`: TraceQL that selects `verl.lane` and the span's name."""
    asked = tempo.TempoQuery().query_type("traceql").query(query).limit(_TRACES).spss(_SPANS_OF_A_TRACE).ref_id("A")
    made = statetimeline.Panel().row_height(0.9).merge_values(True).per_page(32)
    made = made.with_target(asked.table_type(SearchTableType.SPANS).datasource(source))
    for kind, options in _STEPS:
        made = made.with_transformation(DataTransformerConfig(id_val=kind, options=options))
    made = made.mappings(
        [
            RegexMap(DashboardRegexMapOptions(_KIND + what, ValueMappingResult(text="$1", color=color, index=number)))
            for number, (what, color) in enumerate(_COLORS)
        ]
    )
    return made.override_by_field_type("string", [DynamicConfigValue("displayName", "${__series.name}")])
