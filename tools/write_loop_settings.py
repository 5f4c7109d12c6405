"""Write the table of the settings of a loop into docs/service-api.md: `python tools/write_loop_settings.py`."""

from enum import Enum
from pathlib import Path

import msgspec

from glbandits.service.domain.loop_config import DECLARED, LoopConfig
from glbandits.service.http.v1.configuration_handlers import LoopConfiguration

PAGE = Path(__file__).parent.parent / "docs/service-api.md"
BEGIN, END = "<!-- settings of a loop: tools/write_loop_settings.py -->\n", "<!-- end of the settings -->\n"


def settings_table() -> str:
    """Return the table: name, meaning, unit, default and range of each setting."""
    lines = ["| setting | meaning | unit | default | range |", "|---|---|---|---|---|"]
    defaults = msgspec.to_builtins(LoopConfig())
    for field in msgspec.structs.fields(LoopConfiguration):
        if field.name not in DECLARED:  # only in requests or responses
            continue
        unit = (DECLARED[field.name].extra or {}).get("unit", "")
        default = "" if field.name == "settings" else f"`{msgspec.json.encode(defaults[field.name]).decode()}`"
        meaning = DECLARED[field.name].description
        lines.append(f"| `{field.encode_name}` | {meaning} | {unit} | {default} | {_range(field.name)} |")
    return "\n".join(lines) + "\n"


def _range(name: str) -> str:
    meta, default = DECLARED[name], getattr(LoopConfig(), name)
    if meta.ge is not None and meta.le is not None:
        return f"{meta.ge:,g} to {meta.le:,}"
    return ", ".join(f"`{value}`" for value in type(default)) if isinstance(default, Enum) else ""


def with_table(page: str) -> str:
    """Return the page with the present table."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + settings_table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
