"""The demo's pictures on the terminal: the steps' main scalars, one step's trace as a tree, and what arrived."""

from collections import Counter, defaultdict

from captured import Capture, CapturedSpan
from observed import lost
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from verl_otel import semconv

COLUMNS = (
    ("reward", "critic/score/mean", "{:.3f}"),
    ("val acc", "val-core/tiny_sum/acc/mean@1", "{:.3f}"),
    ("entropy", "actor/entropy", "{:.2f}"),
    ("grad", "actor/grad_norm", "{:.2f}"),
    ("tokens", "response_length/mean", "{:.1f}"),
    ("mismatch", "training/rollout_probs_diff_mean", "{:.0e}"),
    ("time", "timing_s/step", "{:.2f} s"),
    ("tokens/s", "perf/throughput", "{:.0f}"),
)
WIDTH = 14


def show_steps(console: Console, log: list[tuple[int, dict]]) -> None:
    """One row a step; what a step didn't log stays blank."""
    table = _table("Is it learning?", "step", *(name for name, _, _ in COLUMNS))
    for step, data in log:
        cells = ("" if data.get(key) is None else form.format(data[key]) for _, key, form in COLUMNS)
        table.add_row(str(step), *cells)
    console.print(table)


def show_capture(console: Console, capture: Capture) -> None:
    """The last step's trace, then the counts."""
    roots = [span for span in capture.spans if span.name == semconv.SPAN_STEP]
    if roots:
        console.print(trace_table(capture, max(roots, key=lambda span: span.start)))
    show_counts(console, capture)


def trace_table(capture: Capture, root: CapturedSpan) -> Table:
    """A trace as a tree: name, where in the root's time it lies, how long it took, and which process it was in."""
    children = defaultdict(list)
    for span in capture.spans:
        children[span.parent].append(span)
    title = f"Where did the time of step {root.attributes.get(semconv.STEP)} go?"
    table = _table(title, "span", "when", "took", "process")

    def add(span: CapturedSpan, lead: str, below: str) -> None:
        scale = WIDTH / max(root.end - root.start, 1)
        first = min(int((span.start - root.start) * scale), WIDTH - 1)
        length = min(max(1, round((span.end - span.start) * scale)), WIDTH - first)
        bar = Text(" " * first + "━" * length, style="red" if span.error else "cyan")
        table.add_row(lead + span.name.removeprefix("verl."), bar, f"{span.seconds:.3f} s", process(span))
        inner = sorted(children[span.id], key=lambda one: one.start)
        for number, child in enumerate(inner, 1):
            last = number == len(inner)
            add(child, below + ("└ " if last else "├ "), below + ("  " if last else "│ "))

    add(root, "", "")
    return table


def process(span: CapturedSpan) -> str:
    """Role and rank where the span has them, and the process id."""
    rank = span.attributes.get(semconv.RANK)
    who = f"{span.attributes[semconv.ROLE]} {rank}" if rank is not None else "trainer"
    return f"{who}, {pid(span)}"


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table


def show_counts(console: Console, capture: Capture) -> None:
    """What each process sent, and how much was lost on the way."""
    spans = Counter(span.process for span in capture.spans)
    points = Counter(point.process for point in capture.points)
    names = {one.process: who(capture, one.process) for one in (*capture.spans, *capture.points)}
    pids = {one.process: pid(one) for one in (*capture.spans, *capture.points)}
    table = _table("What arrived?", "process", "pid", "spans", "points")
    for process in sorted(names, key=lambda one: names[one]):
        table.add_row(names[process], str(pids[process]), str(spans[process]), str(points[process]))
    total = (str(sum(spans.values())), str(sum(points.values())))
    table.add_section()
    table.add_row(f"{len(names)} processes", "", *total)
    console.print(table)
    trajectories = sum(span.name.startswith(semconv.SPAN_AGENT) for span in capture.spans)
    console.print(f"{trajectories} trajectories, each a trace of its own; {len(capture.events)} events; ", end="")
    console.print(f"lost: {lost(capture)}")


def who(capture: Capture, process: str) -> str:
    """What a process does, by what it tells."""
    names = {span.name for span in capture.spans if span.process == process}
    for prefix, title in (
        (semconv.SPAN_STEP, "trainer (task runner)"),
        (semconv.SPAN_GENERATE_SERVER, "rollout server (vLLM)"),
        (semconv.SPAN_AGENT, "agent loop worker"),
        (semconv.SPAN_WORKER, "worker (actor, rollout)"),
    ):
        if any(name.startswith(prefix) for name in names):
            return title
    driver = {event.resource.get("service.instance.id") for event in capture.events}
    return "driver" if process in driver else "other worker"


def pid(one) -> int:
    """The process id, from the resource."""
    return int(one.resource.get("process.pid", 0))
