"""How each program of a stack is started, and how one sees that it is ready."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from verl_otel.stack.plan import Plan
from verl_otel.stack.ports import LOOPBACK

GRAFANA_PASSWORD: Final = "grafana-password"  # noqa: S105 - a file's name


@dataclass(frozen=True)
class Service:
    """A program at work. `ready`: URL that answers 200 once it is."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: str


def services(plan: Plan) -> list[Service]:
    """Those of a plan: stores first, so that the collector finds them, and is the first to be stopped."""
    makers = {"prometheus": _prometheus, "tempo": _tempo, "grafana": _grafana, "collector": _collector}
    return [make(plan, plan.programs[name]) for name, make in makers.items() if name in plan.programs]


def ports_needed(programs: Mapping[str, Path]) -> list[str]:
    """Names of the ports that these programs listen on."""
    needed = {
        "prometheus": ["prometheus"],
        "tempo": ["tempo", "tempo-otlp", "tempo-grpc", "tempo-memberlist"],
        "grafana": ["grafana"],
        "collector": ["otlp-grpc", "otlp-http", "collector-own", "collector-health"],
    }
    return [port for name, ports in needed.items() if name in programs for port in ports]


def _local(plan: Plan, port: str) -> str:
    return f"{LOOPBACK}:{plan.ports[port]}"


def _open(plan: Plan, port: str) -> str:
    host = f"[{plan.bind}]" if ":" in plan.bind else plan.bind
    return f"{host}:{plan.ports[port]}"


def _prometheus(plan: Plan, binary: Path) -> Service:
    address = _local(plan, "prometheus")
    command = (
        str(binary),
        f"--config.file={plan.folder / 'config' / 'prometheus' / 'prometheus.yaml'}",
        f"--storage.tsdb.path={plan.folder / 'data' / 'prometheus'}",
        f"--storage.tsdb.retention.time={plan.retention}",
        f"--web.listen-address={address}",
        "--web.enable-otlp-receiver",
        "--web.enable-lifecycle",
        "--enable-feature=exemplar-storage",
    )
    return Service("prometheus", command, {}, f"http://{address}/-/ready")


def _tempo(plan: Plan, binary: Path) -> Service:
    address = _local(plan, "tempo")
    environment = {
        "TEMPO_HTTP_PORT": str(plan.ports["tempo"]),
        "TEMPO_GRPC_PORT": str(plan.ports["tempo-grpc"]),
        "TEMPO_MEMBERLIST_PORT": str(plan.ports["tempo-memberlist"]),
        "TEMPO_OTLP_ADDRESS": _local(plan, "tempo-otlp"),
        "TEMPO_DIRECTORY": str(plan.folder / "data" / "tempo"),
    }
    command = (
        str(binary),
        f"-config.file={plan.folder / 'config' / 'tempo' / 'tempo.yaml'}",
        "-config.expand-env=true",
    )
    return Service("tempo", command, environment, f"http://{address}/ready")


def _grafana(plan: Plan, binary: Path) -> Service:
    data = plan.folder / "data" / "grafana"
    environment = {
        "GF_SERVER_HTTP_ADDR": plan.bind,
        "GF_SERVER_HTTP_PORT": str(plan.ports["grafana"]),
        "GF_PATHS_DATA": str(data),
        "GF_PATHS_LOGS": str(data / "log"),
        "GF_PATHS_PLUGINS": str(data / "plugins"),
        "GF_PATHS_PROVISIONING": str(plan.folder / "config" / "grafana" / "provisioning"),
        # Its own notation; the ending __FILE is a container's.
        "GF_SECURITY_ADMIN_PASSWORD": f"$__file{{{plan.folder / GRAFANA_PASSWORD}}}",
        # On loopback whoever is on this host may look; from elsewhere only who has the password.
        "GF_AUTH_ANONYMOUS_ENABLED": "true" if plan.bind == LOOPBACK else "false",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_NEWS_NEWS_FEED_ENABLED": "false",
        # Else it fetches its own data sources anew at each start, and has none where that fails.
        "GF_PLUGINS_PREINSTALL_DISABLED": "true",
        "GF_PLUGINS_PREINSTALL_AUTO_UPDATE": "false",
        "PROMETHEUS_URL": plan.prometheus_url,
        "TEMPO_URL": plan.tempo_url or "http://127.0.0.1:3200",
        "DASHBOARDS": str(plan.folder / "config" / "grafana" / "dashboards"),
    }
    # Its root is two folders above bin/grafana.
    command = (str(binary), "server", f"--homepath={binary.resolve().parent.parent}")
    return Service("grafana", command, environment, f"http://{_open(plan, 'grafana')}/api/health")


def _collector(plan: Plan, binary: Path) -> Service:
    folder = plan.folder / "config" / "collector"
    command = (str(binary), *(f"--config={folder / name}" for name in ("collector.yaml", *overlays(plan))))
    environment = {
        "OTLP_GRPC_ADDRESS": _open(plan, "otlp-grpc"),
        "OTLP_HTTP_ADDRESS": _open(plan, "otlp-http"),
        "OWN_ADDRESS": _local(plan, "collector-own"),
        "HEALTH_ADDRESS": _local(plan, "collector-health"),
        "PROMETHEUS_URL": plan.prometheus_url,
        "TEMPO_ADDRESS": plan.traces_to or (_local(plan, "tempo-otlp") if "tempo" in plan.programs else ""),
        "LOGS_URL": plan.logs_to or "",
        "STORAGE_DIRECTORY": str(plan.folder / "data" / "collector"),
        "TOKEN_FILE": str(plan.token_file or ""),
        "TLS_CERTIFICATE": str(plan.certificate or ""),
        "TLS_KEY": str(plan.key or ""),
    }
    given = {name: value for name, value in environment.items() if value}
    return Service("collector", command, given, f"http://{_local(plan, 'collector-health')}/")


def overlays(plan: Plan) -> list[str]:
    """What is laid over collector.yaml, in this order."""
    chosen = {
        "no-logs.yaml": plan.logs_to is None,
        "no-traces.yaml": plan.traces_to is None and "tempo" not in plan.programs,
        "token.yaml": plan.token_file is not None,
        "tls.yaml": plan.certificate is not None,
    }
    return [name for name, is_on in chosen.items() if is_on] + list(plan.overlays)
