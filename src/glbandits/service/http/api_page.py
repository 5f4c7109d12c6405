"""The page /docs: the OpenAPI document for people. It needs no script and no network."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from typing import Any

import msgspec
from starlette.responses import Response

REFERENCE = "#/components/schemas/"
STYLE = """
:root { color-scheme: light dark; --line: light-dark(#dfe3e8, #2b323c); --muted: light-dark(#57606c, #a0aab6); }
body { margin: 0 auto; max-width: 60rem; padding: 1rem 1.25rem 3rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
summary { cursor: pointer; padding: .35rem 0; }
summary b { display: inline-block; min-width: 4rem; color: light-dark(#0072B2, #56B4E9); }
summary span, .muted { color: var(--muted); }
details { border-bottom: 1px solid var(--line); } details > div { padding: 0 0 .8rem 1rem; overflow-x: auto; }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9em; overflow-wrap: anywhere; }
table { border-collapse: collapse; } th { color: var(--muted); }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
"""


@cache
def api_page(document: bytes) -> Response:
    """Return the page of an OpenAPI document."""
    content = msgspec.json.decode(document)
    schemas = content["components"]["schemas"]
    operations = [
        (path, method, operation)
        for path, methods in content["paths"].items()
        if not path.startswith("/loops/")
        for method, operation in methods.items()
    ]
    own = [_operation(*each) for each in operations if not each[0].startswith("/personalizer")]
    personalizer = [_operation(*each) for each in operations if each[0].startswith("/personalizer")]
    types = [
        f'<details><summary><code>{name}</code></summary><div id="{name}">{_fields(schema)}</div></details>'
        for name, schema in sorted(schemas.items())
    ]
    info = content["info"]
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>API of glbandits</title><link rel="icon" href="data:,"><style>{STYLE}</style>'
        f"<h1>API of glbandits {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
        '<p>For programs: <a href="openapi.json">openapi.json</a>. For people: <a href="dashboard">the dashboard</a>. '
        "Send a key as <code>Authorization: Bearer KEY</code>.</p>"
        f"<h2>API of this service</h2>{''.join(own)}<h2>API of Azure Personalizer</h2>{''.join(personalizer)}"
        f"<h2>Types</h2>{''.join(types)}</html>"
    )
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
    return Response(page, headers={"content-security-policy": policy}, media_type="text/html")


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parts = []
    if operation["parameters"]:
        rows = [(each["name"], each["schema"]["type"], each.get("description", "")) for each in operation["parameters"]]
        parts.append(_table(rows))
    if "requestBody" in operation:
        parts += ["<p>Body</p>", *(_body(kind, body) for kind, body in operation["requestBody"]["content"].items())]
    for status, response in operation["responses"].items():
        if status != "default":
            parts.append(f"<p>Response {status}</p>")
            parts += [_body(kind, body) for kind, body in response.get("content", {}).items()]
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f"<span>{escape(operation['summary'])}</span></summary><div>{''.join(parts)}</div></details>"
    )


def _body(kind: str, body: dict[str, Any]) -> str:
    return f'<p><span class="muted">{escape(kind)}</span> {_type(body.get("schema", {}))}</p>'


def _fields(schema: dict[str, Any]) -> str:
    """Return the description of a type and a table of its fields."""
    required = schema.get("required", ())
    rows = [
        (name, _type(field) + ("" if name in required else ", optional"), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]
    values = "" if rows else f"<p>{_type(schema)}</p>"
    return f"<p>{escape(schema.get('description', ''))}</p>{_table(rows)}{values}"


def _table(rows: list[tuple[str, str, str]]) -> str:
    lines = [f"<tr><td><code>{escape(name)}</code><td>{kind}<td>{escape(text)}" for name, kind, text in rows]
    return f"<table><tr><th>name<th>type<th>meaning{''.join(lines)}</table>" if rows else ""


def _type(schema: dict[str, Any]) -> str:
    """Return a schema in words, with links to types that have a name."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(REFERENCE)
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return escape(", ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items') or {})}"
    return escape(str(schema.get("type", "any")))
