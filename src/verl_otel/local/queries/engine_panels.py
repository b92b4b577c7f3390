"""Panels of any engine, of vLLM and of SGLang, with the engines' own names of their metrics."""

from typing import Final

from verl_otel import semconv
from verl_otel.local.queries.panels import Counter, Gauge, Panel, Quantiles, Share

WHO: Final = (semconv.ROLE, semconv.REPLICA)
_NO_ENGINE: Final = "no engine's server is observed: its process may run without verl-otel"
_NOT_VLLM: Final = "the engine is not vLLM, or disable_log_stats is on"
_NOT_SGLANG: Final = "the engine is not SGLang, or its enable_metrics is off"
_NOTHING_DRAFTED: Final = "nothing is drafted"

ANY: Final = (
    Panel(
        "load",
        "How many requests are in flight?",
        "All replicas alike. Parked: at verl's gate, while weights change.",
        "{request}",
        (Gauge(semconv.ENGINE_IN_FLIGHT.name, (semconv.ENGINE_STATE, *WHO)),),
        _NO_ENGINE,
    ),
    Panel(
        "idle",
        "Which replica idles?",
        "Low while a rollout goes on.",
        "1",
        (Gauge(semconv.REPLICA_IDLE.name, WHO, take="avg"),),
        _NO_ENGINE,
        0.95,
    ),
    Panel(
        "peak",
        "Could the engines take more at once?",
        "Peak near the limit: the replica is used. Far below: it could take more.",
        "{request}",
        (
            Gauge(semconv.ENGINE_RUNNING_PEAK.name, WHO, "peak"),
            Gauge(semconv.ENGINE_RUNNING_LIMIT.name, WHO, "limit"),
        ),
        "the engine doesn't say how many requests it may run at once",
    ),
    Panel(
        "request",
        "How long does a request take?",
        "As its answers are long.",
        "s",
        (Quantiles(semconv.SERVER_DURATION.name),),
        _NO_ENGINE,
    ),
    Panel(
        "first_token",
        "How long until the first token?",
        "Short; a long one is a queue, or a long prompt.",
        "s",
        (Quantiles(semconv.SERVER_FIRST_TOKEN.name),),
        "the engine tells no time to first token",
    ),
    Panel(
        "per_token",
        "How long does a token take?",
        "Grows with the batch; jumps are preemptions.",
        "s",
        (Quantiles(semconv.SERVER_PER_TOKEN.name),),
        "the engine tells no time per token",
    ),
    Panel(
        "gate",
        "How long do requests wait for new weights?",
        "As long as a weight sync takes.",
        "s",
        (Quantiles(semconv.ENGINE_PARKED_DURATION.name),),
        "nothing was parked",
    ),
    Panel(
        "queue",
        "How long do requests wait in the engine?",
        "Near 0: more replicas, or more max_num_seqs, if it isn't.",
        "s",
        (Quantiles(semconv.ENGINE_QUEUE_DURATION.name),),
        "the engine tells nothing of its queue",
    ),
    Panel(
        "weights",
        "Do all replicas have the newest weights?",
        "All alike, one more each step.",
        "",
        (Gauge(semconv.REPLICA_WEIGHTS.name, WHO, low_is_bad=True),),
        "no version of the weights was told",
    ),
)
VLLM: Final = (
    Panel(
        "vllm_running",
        "Do requests wait?",
        "Waiting near 0.",
        "{request}",
        (
            Gauge("vllm:num_requests_running", WHO, "running", join="sum"),
            Gauge("vllm:num_requests_waiting", WHO, "waiting", join="sum"),
        ),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_cache",
        "Is the KV cache full?",
        "Below 0.95 at its peak.",
        "1",
        (
            Gauge("vllm:kv_cache_usage_perc", WHO, "now"),
            Gauge(semconv.ENGINE_KV_PEAK.name, WHO, "peak"),
        ),
        _NOT_VLLM,
        0.95,
    ),
    Panel(
        "vllm_preemptions",
        "Are requests preempted?",
        "0: each computes its tokens twice.",
        "{request}/s",
        (Counter("vllm:num_preemptions_total", WHO),),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_tokens",
        "How many tokens a second?",
        "Generated near what the hardware gives.",
        "{token}/s",
        (
            Counter("vllm:prompt_tokens_total", WHO, "in"),
            Counter("vllm:generation_tokens_total", WHO, "out", low_is_bad=True),
        ),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_prefix",
        "Do the samples of a group share their prompt?",
        "High: the prefix cache has it.",
        "1",
        (
            Share(
                Counter("vllm:prefix_cache_hits_total", WHO),
                Counter("vllm:prefix_cache_queries_total", WHO),
            ),
        ),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_between",
        "How long between two tokens?",
        "Steady.",
        "s",
        (Quantiles("vllm:inter_token_latency_seconds"),),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_stages",
        "Prefill, decode or queue?",
        "Decode is most of it.",
        "s",
        (
            Quantiles("vllm:request_prefill_time_seconds", (0.95,), name="prefill"),
            Quantiles("vllm:request_decode_time_seconds", (0.95,), name="decode"),
            Quantiles("vllm:request_queue_time_seconds", (0.95,), name="queue"),
        ),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_finished",
        "How do answers end?",
        "stop, and few of length; abort is verl's.",
        "{request}/s",
        (Counter("vllm:request_success_total", ("finished_reason",)),),
        _NOT_VLLM,
    ),
    Panel(
        "vllm_drafts",
        "How much of what is drafted is accepted?",
        "Steady. It falls as the policy leaves what the drafter was trained on.",
        "1",
        (
            Share(
                Counter("vllm:spec_decode_num_accepted_tokens_total", WHO),
                Counter("vllm:spec_decode_num_draft_tokens_total", WHO),
            ),
        ),
        _NOTHING_DRAFTED,
    ),
)
SGLANG: Final = (
    Panel(
        "sglang_running",
        "Do requests wait?",
        "Queued near 0.",
        "{request}",
        (
            Gauge("sglang:num_running_reqs", WHO, "running", join="sum"),
            Gauge("sglang:num_queue_reqs", WHO, "queued", join="sum"),
        ),
        _NOT_SGLANG,
    ),
    Panel(
        "sglang_cache",
        "Is the KV cache full?",
        "Below 0.95.",
        "1",
        (Gauge("sglang:token_usage", WHO),),
        _NOT_SGLANG,
        0.95,
    ),
    Panel(
        "sglang_tokens",
        "How many tokens a second?",
        "Near what the hardware gives.",
        "{token}/s",
        (Gauge("sglang:gen_throughput", WHO, take="avg", join="sum", low_is_bad=True),),
        _NOT_SGLANG,
    ),
    Panel(
        "sglang_prefix",
        "Do the samples of a group share their prompt?",
        "High: the prefix cache has it.",
        "1",
        (Gauge("sglang:cache_hit_rate", WHO, take="avg"),),
        _NOT_SGLANG,
    ),
    Panel(
        "sglang_first_token",
        "How long until the first token, by the engine?",
        "Short.",
        "s",
        (Quantiles("sglang:time_to_first_token_seconds"),),
        _NOT_SGLANG,
    ),
)
