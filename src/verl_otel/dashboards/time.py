"""Time: where does a step go, who waits for whom?"""

from typing import Any, Final

from verl_otel.dashboards.panels import NUMBER, RUN, SECONDS, SHARE, TOKENS, Panel, Query, Row, make, quantile

# What contains or overlaps the rest is left out: steps, and the requests of a replica, which is busy meanwhile.
LANES: Final = (
    '{ resource.verl.run.id =~ "$run" && span.verl.lane != "" && name != "verl.step" && name != "verl.phase.step"'
    ' && name != "verl.engine.generate" } | select(span.verl.lane, name)'
)

STEP = Row(
    "Where does a step go?",
    [
        Panel(
            "Step",
            SECONDS,
            "Steady. What it is made of is beside it.",
            [Query(f"run:verl_step_seconds:last{{{RUN}}}", "{{verl_run_id}}")],
        ),
        Panel(
            "Phases",
            SECONDS,
            "gen is most of it; the rest grows with the batch alone.",
            [Query(f'verl_timing_seconds{{{RUN},verl_phase!="step"}}', "{{verl_phase}}")],
        ),
        Panel(
            "Share of the step",
            SHARE,
            "No phase creeps up.",
            [Query(f"run_phase:verl_timing:share{{{RUN}}}", "{{verl_phase}}")],
        ),
        Panel(
            "Open now",
            SECONDS,
            "What is going on now, and for how long. One that outgrows its usual time is stuck.",
            [
                Query(
                    f'max by (verl_phase) (verl_phase_open_duration_seconds{{{RUN},verl_phase!=""}})', "{{verl_phase}}"
                )
            ],
            "states",
            24,
        ),
        Panel(
            "Phases, 95th percentile",
            SECONDS,
            "Near the usual; a dot leads to the trace of a slow one.",
            [
                Query(
                    quantile(0.95, "verl_phase_duration_seconds", by="verl_phase", window="30m"),
                    "{{verl_phase}}",
                    exemplars=True,
                )
            ],
            width=12,
        ),
        Panel(
            "Per token",
            SECONDS,
            "Steady: more time is more tokens, or slower ones.",
            [Query(f"verl_timing_per_token_seconds{{{RUN}}}", "{{verl_phase}}")],
            width=12,
        ),
    ],
)
WAITING = Row(
    "Who waits for whom?",
    [
        Panel(
            "Lanes",
            NUMBER,
            "Full rows: who has a gap waits for the row that has none. Choose one run, and a few of its steps.",
            [Query(LANES, "")],
            "lanes",
            24,
            16,
        ),
        Panel(
            "Slowest rank over the median",
            SECONDS,
            "Near 0. A rank that is always it has a slow GPU or host; see its number beside.",
            [Query(f"verl_phase_straggler_gap_seconds{{{RUN}}}", "{{verl_phase}} {{verl_role}}")],
        ),
        Panel(
            "Which rank that is",
            NUMBER,
            "Changes from step to step.",
            [Query(f"verl_phase_straggler_rank{{{RUN}}}", "{{verl_phase}} {{verl_role}}")],
        ),
        Panel(
            "What stragglers cost",
            SHARE,
            "Below 0.1 of their phase.",
            [Query(f"run_phase:verl_straggler_gap:share{{{RUN}}}", "{{verl_phase}}")],
        ),
        Panel(
            "GPUs idle, by phase",
            SHARE,
            "Low in updates. High in gen: the rollout's tail, or a reward that is waited for.",
            [Query(f"run_phase:verl_gpu_idle:avg{{{RUN}}}", "{{verl_phase}}")],
        ),
        Panel(
            "Replicas idle",
            SHARE,
            "Alike, and low while a rollout goes on.",
            [Query(f"verl_replica_idle_ratio{{{RUN}}}", "{{verl_role}} {{verl_replica}}")],
        ),
        Panel(
            "Sequence balance",
            TOKENS,
            "Balanced: what ranks got, least and most close together (trainer.balance_batch). The others: without it.",
            [
                Query(f'verl_global_seqlen{{{RUN},verl_statistic=~"min|max|mean"}}', "{{verl_statistic}}"),
                Query(f"verl_global_seqlen_balanced_min{{{RUN}}}", "min, balanced"),
                Query(f"verl_global_seqlen_balanced_max{{{RUN}}}", "max, balanced"),
            ],
        ),
        Panel(
            "Worker calls",
            SECONDS,
            "Which method of which role takes the time.",
            [
                Query(
                    quantile(0.95, "verl_worker_duration_seconds", by="verl_role, verl_worker_method", window="30m"),
                    "{{verl_role}} {{verl_worker_method}}",
                    exemplars=True,
                )
            ],
            width=16,
        ),
    ],
)
SPEED = Row(
    "How fast is it?",
    [
        Panel(
            "Tokens a second",
            TOKENS,
            "Effective near the trainer's and rollout's own: the rest is waiting.",
            [Query(f"verl_step_throughput_per_second{{{RUN}}}", "{{verl_throughput}}")],
        ),
        Panel(
            "Tokens a second and GPU",
            TOKENS,
            "Compare runs of different size here.",
            [Query(f"verl_step_gpu_throughput_per_second{{{RUN}}}", "{{verl_throughput}}")],
        ),
        Panel(
            "Model FLOPs utilisation",
            SHARE,
            "0.3 and above on a GPU.",
            [
                Query(f"verl_perf_mfu_actor_ratio{{{RUN}}}", "actor"),
                Query(f"verl_perf_mfu_critic_ratio{{{RUN}}}", "critic"),
            ],
        ),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make("time", "Time", "Where does a step go, and who waits for whom?", [STEP, WAITING, SPEED])
