"""Compare runs, by step: choose several above."""

from typing import Any

from verl_otel.dashboards.panels import NUMBER, RUN, SECONDS, SHARE, TOKENS, Panel, Query, Row, make


def by_run(expression: str) -> list[Query]:
    """One line a run."""
    return [Query(f"max by (verl_run_id) ({expression})", "{{verl_run_id}}")]


RUNS = Row(
    "By step",
    [
        Panel(
            "Score", NUMBER, "Higher earlier.", by_run(f'verl_critic_score{{{RUN},verl_statistic="mean"}}'), "steps", 12
        ),
        Panel("Validation", NUMBER, "Higher earlier.", by_run(f"verl_val_core{{{RUN}}}"), "steps", 12),
        Panel("KL", NUMBER, "Lower for the same score.", by_run(f"verl_actor_ppo_kl{{{RUN}}}"), "steps"),
        Panel("Entropy", NUMBER, "Falls slower.", by_run(f"run:verl_entropy:last{{{RUN}}}"), "steps"),
        Panel(
            "Response length",
            TOKENS,
            "Shorter for the same score.",
            by_run(f'verl_response_length{{{RUN},verl_statistic="mean"}}'),
            "steps",
        ),
        Panel(
            "Difference of engine and trainer",
            NUMBER,
            "Below 0.005.",
            by_run(f"verl_training_rollout_probs_diff_mean{{{RUN}}}"),
            "steps",
        ),
        Panel("Step", SECONDS, "Shorter.", by_run(f"run:verl_step_seconds:last{{{RUN}}}"), "steps"),
        Panel(
            "Tokens a second and GPU",
            TOKENS,
            "More.",
            by_run(f'verl_step_gpu_throughput_per_second{{{RUN},verl_throughput="effective"}}'),
            "steps",
        ),
        Panel("Replicas idle", SHARE, "Less.", by_run(f"run:verl_replica_idle:avg{{{RUN}}}"), "steps"),
    ],
)
WHAT = Row(
    "What they are",
    [
        Panel(
            "Runs",
            NUMBER,
            "Project, experiment, algorithm, model, trainer and versions, in the labels.",
            [
                Query(
                    f"verl_run_info{{{RUN}}}",
                    "{{verl_run_id}}: {{verl_run_project}} {{verl_run_experiment}} {{verl_run_algorithm}} "
                    "{{verl_run_trainer}}",
                )
            ],
            "stat",
            24,
        ),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make("compare", "Compare runs", "Which run learns faster, for less?", [RUNS, WHAT])
