"""Routing of prompts to language models by quality and cost."""

from glbandits.routing.prompt_router import PROMPT_TEXT, PromptRouter, Route

__all__ = ["PROMPT_TEXT", "PromptRouter", "Route"]
