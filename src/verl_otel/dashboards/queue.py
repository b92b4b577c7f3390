"""Queue and async: do batches flow, how stale are they?"""

from typing import Any

from verl_otel.dashboards.panels import (
    BYTES,
    COUNT,
    NUMBER,
    RUN,
    SECONDS,
    SHARE,
    Panel,
    Query,
    Row,
    added,
    make,
    quantile,
)

ASYNC = Row(
    "How stale are they?",
    [
        Panel(
            "Staleness of trajectories",
            NUMBER,
            "Within the bound that was set. By the oldest weights that made a part of a trajectory, and by the newest.",
            [
                Query(
                    f'verl_training_off_policy_trajectory_staleness_worst{{{RUN},verl_statistic=~"mean|max"}}',
                    "oldest weights {{verl_statistic}}",
                ),
                Query(
                    f'verl_training_off_policy_trajectory_staleness{{{RUN},verl_statistic=~"mean|max"}}',
                    "newest weights {{verl_statistic}}",
                ),
            ],
        ),
        Panel(
            "Versions that a trajectory spans",
            NUMBER,
            "1: made with one version.",
            [
                Query(
                    f'verl_training_off_policy_trajectory_spans{{{RUN},verl_statistic=~"mean|max"}}',
                    "{{verl_statistic}}",
                )
            ],
        ),
        Panel(
            "Fully async: samples",
            COUNT,
            "Dropped near 0.",
            [Query(f'{{__name__=~"verl_fully_async_count_.*",{RUN}}}', "{{__name__}}")],
        ),
        Panel(
            "Groups in the buffer",
            COUNT,
            "Finished ones wait for the trainer, pending ones for the engines.",
            [Query(f"verl_rollout_groups{{{RUN}}}", "{{verl_rollout_state}}")],
        ),
        Panel(
            "Weight sync",
            SECONDS,
            "Short against a step.",
            [Query(f'verl_timing_seconds{{{RUN},verl_phase="update_weights"}}', "{{verl_run_id}}")],
        ),
        Panel(
            "Weights handed on",
            BYTES,
            "The model's size each step.",
            [Query(f"increase(verl_weights_transferred_bytes_total{{{RUN}}}[5m])", "{{verl_role}}")],
        ),
    ],
)
QUEUE = Row(
    "TransferQueue",
    [
        Panel(
            "Operations",
            SECONDS,
            "Milliseconds; a batch of images more.",
            [
                Query(
                    quantile(0.95, "verl_queue_duration_seconds", by="verl_queue_operation"),
                    "{{verl_queue_operation}}",
                    exemplars=True,
                )
            ],
        ),
        Panel(
            "Controller: requests",
            COUNT,
            "As the trainer asks.",
            [Query(f"sum by (op_type) (rate(tq_controller_request_total{{{RUN}}}[5m]))", "{{op_type}}")],
        ),
        Panel(
            "Controller: time",
            SECONDS,
            "Milliseconds: else it is the bottleneck.",
            [
                Query(
                    quantile(0.95, "tq_controller_request_duration_seconds", by="op_type", window="5m"),
                    "{{op_type}}",
                )
            ],
        ),
        Panel(
            "Controller: up for",
            SECONDS,
            "As long as the run; a short one was started again, and forgot what it held.",
            [Query(f"tq_controller_uptime_seconds{{{RUN}}}", "{{verl_run_id}}")],
            "stat",
        ),
        Panel(
            "Requests that failed",
            COUNT,
            "0.",
            [
                Query(added("tq_controller_request_errors_total", "op_type"), "controller {{op_type}}"),
                Query(added("tq_storage_request_errors_total", "op_type"), "storage {{op_type}}"),
            ],
        ),
    ],
)
PARTITIONS = Row(
    "TransferQueue: what is in it",
    [
        Panel(
            "Partitions",
            COUNT,
            "Those of training and of validation.",
            [Query(f"tq_partitions_total{{{RUN}}}", "{{verl_run_id}}")],
        ),
        Panel(
            "Samples of a partition",
            COUNT,
            "Back to near 0 after each step: what stays was neither trained on nor cleared.",
            [Query(f"tq_partition_samples_total{{{RUN}}}", "{{partition_id}}")],
        ),
        Panel(
            "Production and consumption",
            SHARE,
            "To 1 within a step. What is fetched by key, as V1 trainers do, isn't counted as consumed.",
            [
                Query(f"tq_partition_production_progress{{{RUN}}}", "produced {{partition_id}} {{task_name}}"),
                Query(f"tq_partition_consumption_progress{{{RUN}}}", "consumed {{partition_id}} {{task_name}}"),
            ],
        ),
    ],
)
STORAGE = Row(
    "TransferQueue: its storage units",
    [
        Panel(
            "Storage: requests",
            COUNT,
            "A second; even over the units.",
            [
                Query(
                    f"sum by (storage_unit_id, op_type) (rate(tq_storage_request_ops{{{RUN}}}[5m]))",
                    "{{op_type}} {{storage_unit_id}}",
                )
            ],
        ),
        Panel(
            "Storage: requests not done",
            COUNT,
            "Near 0. What stays was read by a unit, and isn't answered.",
            [
                Query(
                    f"sum by (storage_unit_id, op_type) (tq_storage_arrivals_by_op{{{RUN}}}) - "
                    f"sum by (storage_unit_id, op_type) (tq_storage_request_ops{{{RUN}}})",
                    "{{op_type}} {{storage_unit_id}}",
                )
            ],
        ),
        Panel(
            "Storage: time",
            SECONDS,
            "Milliseconds.",
            [
                Query(
                    quantile(0.95, "tq_storage_request_duration_seconds", by="op_type", window="5m"),
                    "{{op_type}}",
                )
            ],
        ),
        Panel(
            "Storage: in use",
            SHARE,
            "Below 0.9, and even over the units.",
            [Query(f"tq_storage_utilization_ratio{{{RUN}}}", "{{storage_unit_id}}")],
        ),
        Panel(
            "Storage: keys",
            COUNT,
            "Far below what a unit takes; back to near 0 after each step.",
            [
                Query(f"tq_storage_active_keys_total{{{RUN}}}", "held by {{storage_unit_id}}"),
                Query(f"tq_storage_capacity_total{{{RUN}}}", "limit of {{storage_unit_id}}"),
            ],
        ),
        Panel(
            "Memory of TransferQueue",
            BYTES,
            "Rises and falls with the batch. One that only rises holds what nobody clears.",
            [
                Query(f"tq_storage_memory_rss_bytes{{{RUN}}}", "{{storage_unit_id}}"),
                Query(f"tq_controller_memory_rss_bytes{{{RUN}}}", "controller"),
            ],
        ),
        Panel(
            "On SSD",
            BYTES,
            "0 unless values are offloaded there.",
            [Query(f"tq_storage_ssd_active_bytes{{{RUN}}}", "{{storage_unit_id}}")],
        ),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make(
        "queue", "Queue and async", "Do batches flow, and how stale are they?", [ASYNC, QUEUE, PARTITIONS, STORAGE]
    )
