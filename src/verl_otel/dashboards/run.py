"""Run: is it learning, and do trainer and engine still agree?"""

from typing import Any, Final

from verl_otel.dashboards.panels import NUMBER, RUN, SHARE, TOKENS, Panel, Query, Row, make

VARIABLE: Final = "{{verl_data_source}} {{verl_variable}} {{verl_statistic}}"


def band(metric: str) -> list[Query]:
    """Mean, least and most of what verl logs as `/mean`, `/min` and `/max`."""
    return [
        Query(f'{metric}{{{RUN},verl_statistic="{one}"}}', f"{one} {{{{verl_run_id}}}}")
        for one in ("mean", "min", "max")
    ]


def scalar(metric: str, legend: str = "{{verl_run_id}}") -> Query:
    """One of verl's scalars."""
    return Query(f"{metric}{{{RUN}}}", legend)


def corrected(key: str, legend: str) -> Query:
    """One of those that compare trainer and engine; in bypass mode they come from the actor, and are named so."""
    return Query(f'{{__name__=~"verl_(actor_)?rollout_corr_{key}",{RUN}}}', legend)


LEARNING = Row(
    "Is it learning?",
    [
        Panel(
            "Score",
            NUMBER,
            "Rises, with a spread: least and most apart. All equal teaches nothing.",
            [
                *band("verl_critic_score"),
                Query(
                    f'verl_critic_rewards{{{RUN},verl_statistic="mean"}}', "mean less the KL penalty {{verl_run_id}}"
                ),
            ],
        ),
        Panel(
            "Score by step",
            NUMBER,
            "The same over training steps: compare runs of different speed here.",
            [Query(f'max by (verl_run_id) (verl_critic_score{{{RUN},verl_statistic="mean"}})', "{{verl_run_id}}")],
            "steps",
        ),
        Panel(
            "Parts of the reward",
            NUMBER,
            "No part alone carries the score; one that jumps is being gamed.",
            [Query(f'verl_reward_step{{{RUN},verl_statistic="mean"}}', "{{verl_reward_name}}")],
        ),
        Panel(
            "Validation",
            NUMBER,
            "Rises with the score. A score that rises alone is overfitting, or a reward that is gamed.",
            [Query(f"verl_val_core{{{RUN}}}", VARIABLE)],
        ),
        Panel(
            "Validation, the rest",
            NUMBER,
            "As what is validated rises; a part that rises alone is where the reward is gamed.",
            [Query(f'verl_val_aux{{{RUN},verl_statistic=~"mean@.*"}}', VARIABLE)],
        ),
        Panel("Advantages", NUMBER, "Around 0, with a spread that doesn't die.", band("verl_critic_advantages")),
        Panel(
            "Groups that teach nothing",
            SHARE,
            "Below 0.5. All right: too easy. All wrong: too hard, or the reward is broken.",
            [Query(f"verl_group_zero_variance_ratio{{{RUN}}}", "{{verl_group_signal}}")],
        ),
        Panel(
            "Step and epoch",
            NUMBER,
            "The step rises. Epochs are counted from 0.",
            [
                Query(f"run:verl_step:last{{{RUN}}}", "step {{verl_run_id}}"),
                scalar("verl_training_epoch", "epoch {{verl_run_id}}"),
            ],
            "stat",
        ),
    ],
)
UPDATE = Row(
    "Is the update sane?",
    [
        Panel(
            "Loss",
            NUMBER,
            "Small and noisy around 0; it says little of progress.",
            [
                scalar("verl_actor_pg_loss", "policy"),
                scalar("verl_critic_vf_loss", "value"),
                scalar("verl_actor_kl_loss", "KL"),
            ],
        ),
        Panel(
            "KL",
            NUMBER,
            "Below 0.1 nat an update. A jump is a step too large, or stale data.",
            [scalar("verl_actor_ppo_kl", "of the update"), scalar("verl_actor_reward_kl_penalty", "to the reference")],
        ),
        Panel(
            "Entropy",
            NUMBER,
            "Falls slowly. Near 0 the policy has stopped trying.",
            [
                scalar("verl_actor_entropy", "before the update {{verl_run_id}}"),
                scalar("verl_actor_entropy_loss", "in the update {{verl_run_id}}"),
            ],
        ),
        Panel(
            "Gradient norm",
            NUMBER,
            "Steady. Spikes that clipping catches are harmless, a rising level isn't.",
            [scalar("verl_actor_grad_norm", "actor"), scalar("verl_critic_grad_norm", "critic")],
        ),
        Panel(
            "Clipped",
            SHARE,
            "Below 0.2: how many tokens moved too far from the policy that made them.",
            [
                scalar("verl_actor_pg_clipfrac_ratio", "policy"),
                scalar("verl_actor_pg_clipfrac_lower_ratio", "lower"),
                scalar("verl_critic_vf_clipfrac_ratio", "value"),
            ],
        ),
        Panel(
            "Learning rate",
            NUMBER,
            "As scheduled.",
            [scalar("verl_actor_lr", "actor"), scalar("verl_critic_lr", "critic")],
        ),
        Panel(
            "Explained variance",
            NUMBER,
            "Towards 1: the critic explains the returns. PPO alone.",
            [scalar("verl_critic_vf_explained_var")],
        ),
        Panel(
            "Values and returns",
            NUMBER,
            "Values follow the returns, which they have to learn. Without a critic returns are the advantages.",
            [
                Query(f"verl_critic_values{{{RUN}}}", "value {{verl_statistic}}"),
                Query(f"verl_critic_returns{{{RUN}}}", "return {{verl_statistic}}"),
            ],
        ),
        Panel(
            "Not finite",
            NUMBER,
            "Nothing. The first key here is where it began.",
            [Query(f"increase(verl_metric_nonfinite_total{{{RUN}}}[5m])", "{{verl_metric_key}}")],
        ),
    ],
)
AGREE = Row(
    "Do trainer and engine agree?",
    [
        Panel(
            "Difference of probabilities",
            NUMBER,
            "Mean below 0.005; over 0.01 stop and look (rollout.calculate_log_probs).",
            [
                scalar("verl_training_rollout_probs_diff_mean", "mean"),
                scalar("verl_training_rollout_probs_diff_max", "max"),
                scalar("verl_training_rollout_probs_diff_std", "std"),
            ],
        ),
        Panel(
            "By weights' age and replica",
            NUMBER,
            "All alike. One replica: its weights. Older alone: staleness.",
            [Query(f"verl_rollout_mismatch{{{RUN}}}", "{{verl_weights_age}} late, {{server_address}}:{{server_port}}")],
        ),
        Panel(
            "Correlation", NUMBER, "Above 0.99, and steady.", [scalar("verl_training_rollout_actor_probs_pearson_corr")]
        ),
        Panel(
            "KL and chi-square",
            NUMBER,
            "Near 0. That of sequences grows with their length.",
            [
                corrected("kl", "KL"),
                corrected("k3_kl", "k3"),
                corrected("chi2_token", "chi2 of tokens"),
                corrected("chi2_seq", "chi2 of sequences"),
            ],
        ),
        Panel(
            "Perplexity",
            NUMBER,
            "Both sides alike.",
            [corrected("training_ppl", "trainer"), corrected("rollout_ppl", "engine")],
        ),
        Panel(
            "Perplexity of sequences, trainer over engine",
            NUMBER,
            "All near 0, as logarithms. Most or least far from the mean: one sequence is wrong, not the weights.",
            [
                corrected("log_ppl_diff", "mean"),
                corrected("log_ppl_abs_diff", "mean without sign"),
                corrected("log_ppl_diff_max", "most"),
                corrected("log_ppl_diff_min", "least"),
            ],
        ),
    ],
)
LENGTHS = Row(
    "How long are they?",
    [
        Panel(
            "Response length", TOKENS, "Below the limit. Growth without score is padding.", band("verl_response_length")
        ),
        Panel("Prompt length", TOKENS, "As the data have it.", band("verl_prompt_length")),
        Panel(
            "At the limit, aborted",
            SHARE,
            "Below 0.1: a cut response is judged half done.",
            [
                scalar("verl_response_length_clip_ratio", "response at its limit"),
                scalar("verl_prompt_length_clip_ratio", "prompt at its limit"),
                scalar("verl_response_aborted_ratio", "aborted"),
            ],
        ),
        Panel("Turns", NUMBER, "As the task needs.", band("verl_num_turns")),
        Panel("Turns in validation", NUMBER, "As in training.", band("verl_val_aux_num_turns")),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make(
        "run",
        "Run",
        "Is it learning, is the update sane, do trainer and engine agree?",
        [LEARNING, UPDATE, AGREE, LENGTHS],
    )
