"""The files in deploy/: they parse, and name metrics, settings and files that exist."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from glbandits.service.domain.groups.experiment import Control
from glbandits.service.server_settings import PREFIX, Settings, read_settings
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.http.v1.v1_site import Site

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT, DOCKERFILE = (DEPLOY / "glb.service").read_text(), (DEPLOY / "Dockerfile").read_text()
OF_PROMETHEUS = {"instance", "job", "le"}


def alerts() -> list[Any]:
    groups = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panel_queries() -> list[str]:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.fixture(scope="module", name="labels")
def labels_fixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """The labels of each metric in /metrics, with their values, after a decision and its reward."""
    labels: dict[str, dict[str, set[str]]] = {}
    with Site(tmp_path_factory.mktemp("site")) as site:
        site.configure(control=Control(share=0.1), reward_range=(0.0, 1.0))
        event = site.decide()["eventId"]
        assert site.ask("POST", "/v1/reward", {"eventId": event, "value": 1}).status_code == 200
        site.learn()
        for family in text_string_to_metric_families(site.ask("GET", "/metrics").text):
            for sample in family.samples:
                labels.setdefault(sample.name, {})
                for name, value in sample.labels.items():
                    labels.setdefault(sample.name, {}).setdefault(name, set()).add(value)
    return labels


@pytest.mark.parametrize("query", [*(rule["expr"] for rule in alerts()), *panel_queries()])
def test_queries_name_metrics_and_labels_that_exist(labels: dict[str, dict[str, set[str]]], query: str) -> None:
    found = re.findall(r"\b(glb_\w+)(?:\{(.*?)\})?", query)
    assert found or query.startswith("up{")
    for metric, conditions in found:
        assert metric in labels
        for name, value in re.findall(r'(\w+)="(.*?)"', conditions):
            assert value in labels[metric][name]
        assert {name for name, _ in re.findall(r"(\w+)(=~|!=|!~)", conditions)} <= set(labels[metric])
    known = OF_PROMETHEUS.union(*(labels[metric] for metric, _ in found))
    for grouping in re.findall(r"\bby \((.*?)\)", query):
        assert set(grouping.split(", ")) <= known


def test_a_guardrail_fires_one_alert() -> None:
    rules = {rule["alert"]: rule["expr"] for rule in alerts()}
    assert len(rules) == len(set(rules.values())) == len(alerts())
    assert [name for name, query in rules.items() if "glb_guardrail_alarm" in query] == ["GlbGuardrailAlarm"]
    assert rules["GlbGuardrailAlarm"].endswith(" unless on (loop) (glb_fallback > 0)")  # which fires GlbFallback


def test_the_proxy_limits_bodies_like_the_server() -> None:
    (size,) = re.findall(r"max_size (\d+)MB", (DEPLOY / "Caddyfile").read_text())
    assert Settings().max_body < int(size) * 10**6 <= 4 * Settings().max_body


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_alerts_say_what_happened_and_what_to_do(rule: Any) -> None:
    assert set(rule["annotations"]) == {"summary", "action"}
    (*_, grouping) = re.findall(r"\bby \((.*?)\)", rule["expr"]) or ["instance"]
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= set(grouping.split(", "))


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        (dict(re.findall(rf"({PREFIX}\w+)=(\S+)", DOCKERFILE)), {"host", "store", "log_format"}),
        (dict(re.findall(rf"({PREFIX}\w+)=(\S+)", UNIT)), {"store", "log_format", "durability", "loops"}),
        (COMPOSE["x-server"]["environment"], {"store", "shutdown_delay"}),
    ],
    ids=["Dockerfile", "unit", "compose"],
)
def test_variables_are_settings(variables: dict[str, str], names: set[str]) -> None:
    given = {name: value for name, value in variables.items() if name.startswith(PREFIX)}
    assert {name.removeprefix(PREFIX).lower() for name in given} == names
    read_settings({}, given)


def test_files_of_the_image_exist_and_are_not_ignored() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    allowed = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert name.split("/")[0] in allowed


def test_compose_has_two_servers_over_one_database_and_no_password() -> None:
    services = COMPOSE["services"]
    assert services["server-1"] == services["server-2"] == COMPOSE["x-server"]
    assert services["server-1"]["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    assert services["server-1"]["environment"]["PGPASSWORD"].startswith("${DB_PASSWORD:?")
    assert services["db"]["environment"]["POSTGRES_PASSWORD"].startswith("${DB_PASSWORD:?")
    used = set(re.findall(r"\{\$(\w+)\}", (DEPLOY / "Caddyfile").read_text()))
    assert used == set(services["proxy"]["environment"])


@pytest.mark.parametrize(
    "command",
    [
        ("systemd-analyze", "verify", "glb.service"),
        ("promtool", "check", "rules", str(DEPLOY / "alerts.yaml")),
        ("hadolint", str(DEPLOY / "Dockerfile")),
        ("caddy", "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / "Caddyfile")),
    ],
    ids=lambda command: str(command[0]),
)
def test_the_tools_accept_the_files(tmp_path: Path, command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (tmp_path / "glb.service").write_text(UNIT.replace("/opt/glb/bin/glb", sys.executable))
    environment = os.environ | {"DOMAIN": "localhost", "SERVERS": "a:1 b:2", "HOME": str(tmp_path)}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_commands_in_the_container_use_its_store(tmp_path: Path) -> None:
    store = {"GLB_SERVE_STORE": str(tmp_path / "glb.db")}
    SqliteStore(tmp_path / "glb.db").close()
    assert glb("store", "keys", "create", "shop", folder=tmp_path, environment=store).returncode == 0
    assert "shop" in glb("store", "keys", "list", folder=tmp_path, environment=store).stdout
