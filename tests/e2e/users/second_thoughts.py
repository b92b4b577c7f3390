"""An agent loop of a user's own, that verl finds by its configuration."""

from uuid import uuid4

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop


class SecondThoughts(SingleTurnAgentLoop):
    """It asks the model twice, and keeps what it said first."""

    async def run(self, sampling_params, **kwargs):
        first = await super().run(sampling_params, **kwargs)
        await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=first.prompt_ids, sampling_params=sampling_params
        )
        return first
