"""Rollouts: how far are they, what do they wait for, what was lost, which are worst?"""

from typing import Any, Final

from verl_otel.dashboards.panels import (
    COUNT,
    NUMBER,
    RUN,
    SECONDS,
    SHARE,
    TOKENS,
    Panel,
    Query,
    Row,
    added,
    make,
    quantile,
)

TRAJECTORY: Final = 'resource.verl.run.id =~ "$run" && name =~ "invoke_agent.*"'

NOW = Row(
    "How far is it?",
    [
        Panel(
            "Groups",
            COUNT,
            "Pending and running go to 0 as finished rises.",
            [Query(f"verl_rollout_groups{{{RUN}}}", "{{verl_rollout_state}}, validation {{verl_validation}}")],
        ),
        Panel(
            "Running, by what they wait for",
            COUNT,
            "Mostly the model. Tools or rewards that are waited for are too slow or too few.",
            [
                Query(
                    f"sum by (verl_rollout_waiting_for) (verl_rollout_running{{{RUN}}})", "{{verl_rollout_waiting_for}}"
                )
            ],
        ),
        Panel(
            "Oldest",
            SECONDS,
            "Near the usual: one that outgrows it holds the whole step.",
            [
                Query(
                    f"max by (verl_rollout_waiting_for) (verl_rollout_oldest_duration_seconds{{{RUN}}})",
                    "waits for {{verl_rollout_waiting_for}}",
                )
            ],
        ),
        Panel(
            "Time left",
            SECONDS,
            "At the rate of now.",
            [Query(f"verl_rollout_time_left_seconds{{{RUN}}}", "validation {{verl_validation}}")],
            "stat",
        ),
        Panel(
            "Noticed after",
            SECONDS,
            "Below 2 s: V1's buffer looks that often.",
            [Query(f"run:verl_rollout_slack_seconds{{{RUN}}}", "validation {{verl_validation}}")],
        ),
        Panel(
            "Staleness",
            NUMBER,
            "Within the bound that was set; 0 in synchronous training.",
            [
                Query(
                    quantile(0.95, "verl_rollout_staleness"),
                    "95th percentile",
                )
            ],
        ),
    ],
)
LONG = Row(
    "How long do they take?",
    [
        Panel(
            "Trajectories",
            SECONDS,
            "A long tail is what a step waits for; a dot leads to its trace.",
            [
                Query(
                    quantile(one, "gen_ai_invoke_agent_duration_seconds"),
                    f"{one:.0%}",
                    exemplars=True,
                )
                for one in (0.5, 0.95, 1.0)
            ],
        ),
        Panel(
            "Tokens",
            TOKENS,
            "Most well below the limit.",
            [
                Query(
                    f'sum by (le) (increase(verl_rollout_tokens_bucket{{{RUN},verl_token_kind="response"}}[5m]))',
                    "{{le}}",
                )
            ],
            "heat",
        ),
        Panel(
            "Model calls and tool calls",
            NUMBER,
            "As the task needs; a jump is a loop.",
            [
                Query(
                    quantile(0.95, "gen_ai_invoke_agent_inference_calls"),
                    "model",
                ),
                Query(
                    quantile(0.95, "gen_ai_invoke_agent_tool_calls"),
                    "tool",
                ),
            ],
        ),
        Panel(
            "Tools",
            SECONDS,
            "Short against the model's time.",
            [
                Query(
                    quantile(0.95, "gen_ai_execute_tool_duration_seconds", by="gen_ai_tool_name"),
                    "{{gen_ai_tool_name}}",
                    exemplars=True,
                )
            ],
        ),
        Panel(
            "Rewards",
            SECONDS,
            "Short; they overlap with other trajectories, but for the last.",
            [
                Query(
                    quantile(0.95, "verl_reward_duration_seconds", by="verl_reward_function"),
                    "{{verl_reward_function}}",
                    exemplars=True,
                )
            ],
        ),
        Panel(
            "Rewards given",
            NUMBER,
            "A spread, not one value.",
            [
                Query(
                    f'sum by (le) (increase(verl_reward_value_bucket{{{RUN},verl_reward_name="score"}}[5m]))', "{{le}}"
                )
            ],
            "heat",
        ),
    ],
)
LOST = Row(
    "What was lost?",
    [
        Panel(
            "Ended",
            COUNT,
            "Finished alone.",
            [
                Query(
                    added("verl_rollout_ended_total", "verl_rollout_outcome"),
                    "{{verl_rollout_outcome}}",
                )
            ],
        ),
        Panel(
            "Trained without",
            COUNT,
            "0: each is a trajectory that was asked for and paid for.",
            [
                Query(f"increase(verl_rollout_missing_total{{{RUN}}}[15m])", "trajectories"),
                Query(f"increase(verl_rollout_short_groups_total{{{RUN}}}[15m])", "groups short"),
            ],
        ),
        Panel(
            "Tools by outcome",
            COUNT,
            "Succeeded alone; failed is the tool's, invalid and unknown the model's.",
            [
                Query(
                    added("gen_ai_execute_tool_duration_seconds_count", "verl_tool_outcome"),
                    "{{verl_tool_outcome}}",
                )
            ],
        ),
        Panel(
            "Rewards that raised",
            COUNT,
            "0.",
            [
                Query(
                    added(
                        "verl_reward_duration_seconds_count",
                        "verl_reward_function, error_type",
                        f'{RUN},error_type!=""',
                        window="15m",
                    ),
                    "{{verl_reward_function}} {{error_type}}",
                )
            ],
        ),
        Panel(
            "Resumed",
            COUNT,
            "Partial rollouts that went on after an abort.",
            [Query(f"increase(verl_rollout_resumes_total{{{RUN}}}[5m])", "calls")],
        ),
        Panel(
            "Traced",
            SHARE,
            "As VERL_OTEL_ROLLOUT_RATIO and _CAP ask; metrics see all.",
            [
                Query(
                    f"1 - (sum(increase(verl_rollout_unsampled_total{{{RUN}}}[15m])) or vector(0)) / "
                    f"sum(increase(verl_rollout_started_total{{{RUN}}}[15m]))",
                    "share",
                )
            ],
        ),
    ],
)
TRACES = Row(
    "Which are worst?",
    [
        Panel(
            "Failed",
            NUMBER,
            "Nothing. Open one: the error is on the span that raised.",
            [
                Query(
                    f'{{ {TRAJECTORY} && span.verl.rollout.outcome = "failed" }}',
                    "",
                )
            ],
            "traces",
            12,
        ),
        Panel(
            "Slow",
            SECONDS,
            "Open one: model, tool or reward?",
            [Query(f"{{ {TRAJECTORY} && duration > 60s }}", "")],
            "traces",
            12,
        ),
        Panel(
            "Poor",
            NUMBER,
            "Read a few: is the reward right?",
            [Query(f"{{ {TRAJECTORY} && span.verl.reward <= 0 }}", "")],
            "traces",
            12,
        ),
        Panel(
            "Steps",
            SECONDS,
            "Open one: every rank of every phase.",
            [Query('{ resource.verl.run.id =~ "$run" && name = "verl.step" }', "")],
            "traces",
            12,
        ),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make(
        "rollouts",
        "Rollouts",
        "How far are they, what do they wait for, what was lost, which are worst?",
        [NOW, LONG, LOST, TRACES],
    )
