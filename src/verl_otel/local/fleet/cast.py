"""Who is in the made fleet, and what is wrong with it: a slow rank, a slow host, a replica with little to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.store.summary import DEMO

RUN_ID: Final = "demo"
NAME: Final = "demo (made data)"
SECOND: Final = 10**9
TRAINER: Final = "trainer"
GPUS_OF_A_HOST: Final = 8


@dataclass(frozen=True)
class Fleet:
    """How big it is. `steps`: those with every rank and trajectory, the last ones; `history`: steps before them."""

    ranks: int = 1024
    replicas: int = 128
    agents: int = 16
    steps: int = 24
    history: int = 976
    groups: int = 64
    sessions: int = 4
    seed: int = 7

    @property
    def slow_rank(self) -> int:
        """Slower than all others, always."""
        return self.ranks * 517 // 1024

    @property
    def slow_host(self) -> int:
        """Its ranks are a little slower."""
        return self.ranks // GPUS_OF_A_HOST * 29 // 128

    @property
    def idle_replica(self) -> int:
        """Gets less to do than others."""
        return self.replicas * 97 // 128

    def chance(self, *about: object) -> Random:
        """Random numbers that are always the same for what they are about."""
        return Random("/".join(map(str, (self.seed, *about))))  # noqa: S311 - not for secrets

    @cached_property
    def processes(self) -> Mapping[str, Mapping[str, Any]]:
        """Resource attributes of each, by its name."""
        found = {TRAINER: _resource(TRAINER, "train-000", 4000)}
        for rank in range(self.ranks):
            found[rank_name(rank)] = _resource(rank_name(rank), host_of(rank), 5000 + rank % GPUS_OF_A_HOST)
        for replica in range(self.replicas):
            found[replica_name(replica)] = _resource(replica_name(replica), f"rollout-{replica:03}", 6000)
        for agent in range(self.agents):
            found[agent_name(agent)] = _resource(agent_name(agent), f"train-{agent:03}", 7000)
        return found


def rank_name(rank: int) -> str:
    """Of a rank's process."""
    return f"actor/{rank}"


def replica_name(replica: int) -> str:
    """Of a replica's process."""
    return f"replica/{replica}"


def agent_name(agent: int) -> str:
    """Of an agent loop's process."""
    return f"agent/{agent}"


def host_of(rank: int) -> str:
    """Where a rank runs."""
    return f"train-{rank // GPUS_OF_A_HOST:03}"


def _resource(name: str, host: str, pid: int) -> dict[str, Any]:
    return {
        "service.name": "verl",
        "service.instance.id": f"demo-{name}",
        "host.name": host,
        "process.pid": pid,
        semconv.RUN_ID: RUN_ID,
        semconv.RUN_ATTEMPT: 1,
        DEMO: True,
    }
