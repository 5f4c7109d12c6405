"""Reader of the spend logs of LiteLLM: exports of its table LiteLLM_SpendLogs."""

import json
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation import estimate_propensities
from glbandits.evaluation.readers.table_log import convert_polars_errors
from glbandits.routing.audit_log import RoutingLog, routing_log

NO_PROPENSITIES = (
    "LiteLLM's spend log does not have the probability with which each model was chosen. So neither the quality nor "
    "the cost of another router can be evaluated: a model that got the easy prompts looks good and cheap. Route with "
    "PromptRouter(log=FOLDER) and audit that log, or estimate the probabilities (--estimate-propensities), which is "
    "right only if nothing but the number of prompt tokens influenced the choice of the model"
)
NEEDED = ("model", "spend", "startTime")


def read_spend_logs(source: str | PathLike[str], quality: str | None = None) -> RoutingLog:
    """Read spend logs of LiteLLM: a .jsonl, .csv or .parquet file with the columns of LiteLLM_SpendLogs.

    The costs are those of the column `spend`. The context is the number of prompt tokens. Leaves out requests that
    failed or that the cache answered. The result has no probabilities.

    Args:
        source: the file.
        quality: the column with the quality of the answers, from 0 to 1; or its field in the column `metadata`, or in
            `spend_logs_metadata` there.
    """
    path = Path(source)
    with convert_polars_errors():
        if path.suffix == ".parquet":
            requests = pl.read_parquet(path).to_dicts()
        elif path.name.endswith((".csv", ".csv.gz")):
            requests = pl.read_csv(path, infer_schema=False).to_dicts()
        else:
            requests = _json_lines(path)
    missing = [name for name in NEEDED if any(name not in request for request in requests)]
    if missing:
        raise InvalidInput(f"{path.name} must be an export of LiteLLM_SpendLogs; it has no column {', '.join(missing)}")
    answered = [request for request in requests if _is_answered(request)]
    scores = [None if quality is None else _field(request, quality) for request in answered]
    if quality is not None and answered and all(score is None for score in scores):
        raise InvalidInput(f"no request has {quality!r}, as a column or in its metadata", field="quality")
    rows = [
        (str(request["startTime"]), request["model"], request["spend"], score, request.get("prompt_tokens"))
        for request, score in zip(answered, scores, strict=True)
        if isinstance(request["model"], str) and request["spend"] is not None and (quality is None or score is not None)
    ]
    rows.sort(key=lambda row: row[0])
    names = sorted({row[1] for row in rows})
    notes = [
        f"{count:,} requests are left out because {why}"
        for count, why in (
            (len(requests) - len(answered), "they failed, or the cache answered"),
            (len(answered) - len(rows), "their model, spend or quality is missing"),
        )
        if count
    ]
    has_tokens = all(row[4] is not None for row in rows)
    return routing_log(
        names,
        np.array([names.index(row[1]) for row in rows], dtype=np.int64),
        _numbers("spend", [row[2] for row in rows]),
        None if quality is None else _numbers(quality, [row[3] for row in rows]),
        contexts=np.log1p(_numbers("prompt_tokens", [row[4] for row in rows]))[:, None] if has_tokens else None,
        probabilities=None,
        notes=notes,
    )


def is_spend_log(source: str | PathLike[str]) -> bool:
    """Whether this is a file that `read_spend_logs` reads, and not the log of a PromptRouter."""
    path = Path(source)
    with convert_polars_errors():
        return path.is_file() and not (path.suffix == ".parquet" and "probabilities" in pl.read_parquet_schema(path))


def with_estimated_propensities(log: RoutingLog) -> RoutingLog:
    """Return the log with estimated probabilities of all models; `estimate_propensities` warns of what that means."""
    cost = estimate_propensities(log.cost)
    quality = None if log.quality is None else replace(log.quality, probabilities=cost.probabilities, estimated=True)
    return RoutingLog(cost, quality, log.notes)


def _json_lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines() if line]
        if all(isinstance(request, dict) for request in found):
            return list(found)
    except ValueError:
        pass
    raise InvalidInput(f"{path.name} must have one JSON object for each request, or an array of them")


def _is_answered(request: Mapping[str, Any]) -> bool:
    return request.get("status") != "failure" and str(request.get("cache_hit")).lower() != "true"


def _field(request: Mapping[str, Any], name: str) -> Any:
    """Return a column or a field of the metadata; None if it is missing."""
    metadata = _object(request.get("metadata"))
    for fields in (request, metadata, _object(metadata.get("spend_logs_metadata"))):
        if fields.get(name) is not None:
            return fields[name]
    return None


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object, which may be a text; empty for anything else."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(name: str, values: list[Any]) -> Any:
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be numbers: {error}") from None
