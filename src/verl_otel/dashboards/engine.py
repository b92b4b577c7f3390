"""Engine: is inference healthy, and is it used?"""

from typing import Any

from verl_otel.dashboards.panels import (
    COUNT,
    NUMBER,
    REPLICA,
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


def quantiles(metric: str, exemplars: bool = False) -> list[Query]:
    """Median and 95th percentile of a histogram."""
    return [Query(quantile(one, metric, REPLICA, window="5m"), f"{one:.0%}", exemplars) for one in (0.5, 0.95)]


def each(metric: str, legend: str = "{{verl_role}} {{verl_replica}}") -> list[Query]:
    """One value a replica."""
    return [Query(f"{metric}{{{REPLICA}}}", legend)]


def rate(metric: str, legend: str) -> Query:
    """Of a counter, a second, by replica."""
    return Query(
        f"sum by (verl_role, verl_replica) (rate({metric}{{{REPLICA}}}[5m]))", f"{legend} {{{{verl_replica}}}}"
    )


def share(part: str, whole: str) -> str:
    """PromQL of how much one counter grows for another, by replica."""
    return " / ".join(f"sum by (verl_role, verl_replica) (rate({one}{{{REPLICA}}}[5m]))" for one in (part, whole))


ANY = Row(
    "Any engine",
    [
        Panel(
            "In flight",
            COUNT,
            "All replicas alike. Parked: at verl's gate, while weights change.",
            each("verl_engine_in_flight", "{{verl_engine_state}} {{verl_role}} {{verl_replica}}"),
        ),
        Panel(
            "Request",
            SECONDS,
            "A dot leads to the trace.",
            quantiles("gen_ai_server_request_duration_seconds", exemplars=True),
        ),
        Panel(
            "First token",
            SECONDS,
            "Short; a long one is a queue, or a long prompt.",
            quantiles("gen_ai_server_time_to_first_token_seconds", exemplars=True),
        ),
        Panel(
            "Per token",
            SECONDS,
            "Grows with the batch; jumps are preemptions.",
            quantiles("gen_ai_server_time_per_output_token_seconds"),
        ),
        Panel(
            "At the gate", SECONDS, "As long as a weight sync takes.", quantiles("verl_engine_parked_duration_seconds")
        ),
        Panel(
            "In the engine's queue",
            SECONDS,
            "Near 0: more replicas, or more max_num_seqs, if it isn't.",
            quantiles("verl_engine_queue_duration_seconds"),
        ),
        Panel("Idle", SHARE, "Low while a rollout goes on.", each("verl_replica_idle_ratio")),
        Panel("Version of the weights", NUMBER, "All alike, one more each step.", each("verl_replica_weights_version")),
    ],
)


VLLM = Row(
    "vLLM",
    [
        Panel(
            "Running and waiting",
            COUNT,
            "Waiting near 0.",
            [
                *each("vllm:num_requests_running", "running {{verl_replica}}"),
                *each("vllm:num_requests_waiting", "waiting {{verl_replica}}"),
            ],
        ),
        Panel(
            "Peak running of allowed",
            COUNT,
            "Peak near the limit: the replica is used. Far below: it could take more.",
            [
                *each("verl_engine_running_peak", "peak {{verl_replica}}"),
                *each("verl_engine_running_limit", "limit {{verl_replica}}"),
            ],
        ),
        Panel(
            "KV cache",
            SHARE,
            "Below 0.95 at its peak.",
            [
                *each("vllm:kv_cache_usage_perc", "now {{verl_replica}}"),
                *each("verl_engine_kv_cache_peak_ratio", "peak {{verl_replica}}"),
            ],
        ),
        Panel(
            "Preemptions", COUNT, "0: each computes its tokens twice.", [rate("vllm:num_preemptions_total", "a second")]
        ),
        Panel(
            "Tokens a second",
            TOKENS,
            "Generated near what the hardware gives.",
            [rate("vllm:prompt_tokens_total", "in"), rate("vllm:generation_tokens_total", "out")],
        ),
        Panel(
            "Prefix cache",
            SHARE,
            "High: the samples of a group share their prompt.",
            [
                Query(
                    share("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
                    "{{verl_role}} {{verl_replica}}",
                )
            ],
        ),
        Panel("End to end", SECONDS, "As its requests are long.", quantiles("vllm:e2e_request_latency_seconds")),
        Panel("Between tokens", SECONDS, "Steady.", quantiles("vllm:inter_token_latency_seconds")),
        Panel(
            "Prefill and decode",
            SECONDS,
            "Decode is most of it.",
            [
                rate("vllm:request_prefill_time_seconds_sum", "prefill"),
                rate("vllm:request_decode_time_seconds_sum", "decode"),
                rate("vllm:request_queue_time_seconds_sum", "queue"),
            ],
        ),
        Panel(
            "Prompts",
            TOKENS,
            "As the data have them.",
            [Query(added("vllm:request_prompt_tokens_bucket", "le", REPLICA), "")],
            "heat",
        ),
        Panel(
            "Answers",
            TOKENS,
            "Below the limit.",
            [Query(added("vllm:request_generation_tokens_bucket", "le", REPLICA), "")],
            "heat",
        ),
        Panel(
            "Finished",
            COUNT,
            "stop, and few of length; abort is verl's.",
            [
                Query(
                    added("vllm:request_success_total", "finished_reason", REPLICA),
                    "{{finished_reason}}",
                )
            ],
        ),
    ],
)
SPECULATIVE = Row(
    "Speculative decoding",
    [
        Panel(
            "Accepted and drafted",
            TOKENS,
            "A second; close together. What is drafted and not accepted was computed for nothing.",
            [
                rate("vllm:spec_decode_num_accepted_tokens_total", "accepted"),
                rate("vllm:spec_decode_num_draft_tokens_total", "drafted"),
            ],
        ),
        Panel(
            "Share accepted",
            SHARE,
            "Steady. It falls as the policy leaves what the drafter was trained on.",
            [
                Query(
                    share("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"),
                    "{{verl_role}} {{verl_replica}}",
                ),
                Query(f"verl_rollout_spec_accept_rate_ratio{{{RUN}}}", "mean of responses, by verl"),
            ],
        ),
        Panel(
            "Tokens of a forward pass",
            TOKENS,
            "Well above 1, which is what there is without drafts.",
            [
                Query(
                    f"1 + {share('vllm:spec_decode_num_accepted_tokens_total', 'vllm:spec_decode_num_drafts_total')}",
                    "{{verl_role}} {{verl_replica}}",
                ),
                Query(f"verl_rollout_spec_accept_length{{{RUN}}}", "mean of responses, by verl"),
            ],
        ),
    ],
)
SGLANG = Row(
    "SGLang (with enable_metrics)",
    [
        Panel(
            "Running and queued",
            COUNT,
            "Queued near 0.",
            [
                *each("sglang:num_running_reqs", "running {{verl_replica}}"),
                *each("sglang:num_queue_reqs", "queued {{verl_replica}}"),
            ],
        ),
        Panel("Token usage", SHARE, "Below 0.95.", each("sglang:token_usage", "{{verl_replica}}")),
        Panel("Throughput", TOKENS, "Near what the hardware gives.", each("sglang:gen_throughput", "{{verl_replica}}")),
        Panel(
            "Cache hits",
            SHARE,
            "High: the samples of a group share their prompt.",
            each("sglang:cache_hit_rate", "{{verl_replica}}"),
        ),
        Panel("First token", SECONDS, "Short.", quantiles("sglang:time_to_first_token_seconds")),
        Panel("End to end", SECONDS, "As its requests are long.", quantiles("sglang:e2e_request_latency_seconds")),
    ],
)


def build() -> Any:
    """The dashboard."""
    return make(
        "engine", "Engine", "Is inference healthy, and is it used?", [ANY, VLLM, SPECULATIVE, SGLANG], replicas=True
    )
