"""Routing of prompts to language models by quality and cost."""

from glbandits.routing.model_costs import ModelCosts
from glbandits.routing.prompt_router import PromptRouter

__all__ = ["ModelCosts", "PromptRouter"]
