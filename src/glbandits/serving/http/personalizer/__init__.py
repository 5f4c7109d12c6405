"""The wire contract of Azure Personalizer, so that programs written for it run here with another endpoint and key."""

from glbandits.serving.http.personalizer.evaluations import EvaluateLog
from glbandits.serving.http.personalizer.routes import add_routes

__all__ = ["EvaluateLog", "add_routes"]
