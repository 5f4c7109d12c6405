"""Feature flags: the variants of a loop, which the loop stores, and the decision request that they make.

The log has the names and the features that the variants had, so it stays valid when variants change.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from glbandits.common.errors import MAX_ABS, InvalidInput, check_float, lookup, value_text
from glbandits.features import Hashing
from glbandits.service.domain.event_rules import new_event_id
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.request_features import JSON, encode_json_request

MOST_VARIANTS, LONGEST_NAME = 50, 256
NAME_FIELD = "variant"
"""The feature that has the name of a variant, unless the variant has a feature of that name."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A variant of a flag."""

    value: Annotated[
        bool | int | float | str | dict[str, Any],
        Meta(description="What applications get: a boolean, a text, a number or an object."),
    ]
    features: Annotated[dict[str, Any], Meta(description="Named features, for learning across variants.")] = {}
    worth: Annotated[float, Meta(ge=0, description="What a reward of 1 is worth if this variant is shown.")] = 1.0
    cost: Annotated[float, Meta(description="What showing the variant costs, in the unit of worth.")] = 0.0
    retired: Annotated[bool, Meta(description="Whether no further decision shows the variant.")] = False


def check_variants(variants: Mapping[str, Variant], default: str | None) -> None:
    """Raise InvalidInput or UnknownName if the variants are no flag. `default` is the name of the default variant."""
    if len(variants) > MOST_VARIANTS:
        raise InvalidInput(f"a flag may have {MOST_VARIANTS} variants; got {len(variants)}")
    for name, variant in variants.items():
        if not 1 <= len(name) <= LONGEST_NAME or "\0" in name:
            text = f"the name of a variant must have 1 to {LONGEST_NAME} characters without NUL; got {value_text(name)}"
            raise InvalidInput(text)
        check_float(f"worth of variant {name!r}", variant.worth, at_least=0.0)
        check_float(f"cost of variant {name!r}", variant.cost, at_least=-MAX_ABS)
        try:
            Hashing(width=1).named_features({}, variant.features)
        except InvalidInput as error:
            raise InvalidInput(f"features of variant {name!r}: {error}") from None
    names = {bool: "boolean", int: "number", float: "number", str: "text"}
    kinds = {names.get(type(variant.value), "object") for variant in variants.values()}
    if len(kinds) > 1:
        text = f"all variants of a flag must have values of one type; got {', '.join(sorted(kinds))}"
        raise InvalidInput(text)
    if default is not None:
        lookup("variant", default, variants)
    if variants and variants[name := default or next(iter(variants))].retired:
        text = f"the default variant must not be retired; got {value_text(name)}. Set defaultVariant to another one"
        raise InvalidInput(text)


def flag_request(
    variants: Mapping[str, Variant], default: str | None, unit: str, context: Mapping[str, Any], *, deferred: bool
) -> DecisionRequest:
    """Return the request to choose a variant for a unit, whose name is not among the features.

    Retired variants are excluded actions. So a unit that has another variant keeps it.
    """
    names, offered = tuple(variants), tuple(variants.values())
    has_payoffs = any(variant.worth != 1.0 or variant.cost for variant in offered)
    actions = [[{NAME_FIELD: name} | variant.features] for name, variant in variants.items()]
    return DecisionRequest(
        event_id=new_event_id(),
        request=encode_json_request([context], actions),
        encoding=JSON,
        actions=names,
        values=tuple(variant.worth for variant in offered) if has_payoffs else None,
        costs=tuple(variant.cost for variant in offered) if has_payoffs else None,
        excluded=tuple(index for index, variant in enumerate(offered) if variant.retired),
        baseline=names.index(default or names[0]),
        deferred=deferred,
        unit=unit,
        sticky=True,
    )
