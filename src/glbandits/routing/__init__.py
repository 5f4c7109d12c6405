"""Routing of prompts to language models by quality and cost."""

from glbandits.routing.model_costs import ModelCosts
from glbandits.routing.prompt_features import PROMPT_TEXT
from glbandits.routing.prompt_router import PromptRouter, Route

__all__ = ["PROMPT_TEXT", "ModelCosts", "PromptRouter", "Route"]
