import math
from contextlib import suppress
from types import FunctionType
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

from glbandits import InvalidInput, UnknownName
from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.code_digest import digest_of_code
from glbandits.maths.links import LinkFunctions
from glbandits.policies import POLICIES
from glbandits.policies.contract import (
    AnyLink,
    Bounds,
    NonNegative,
    NonNegativeInt,
    Policy,
    Positive,
    PositiveInt,
    Probability,
    declared_settings,
    unpacker,
)
from glbandits.policies.contract.decisions import decisions_of
from glbandits.policies.contract.policy_checks import check_can_run
from glbandits.policies.contract.settings import packed_names


class Example(Policy):
    """A policy with a setting of each type."""

    name: ClassVar[str] = "example"
    compiled_settings: ClassVar[tuple[str, ...] | None] = (
        *("step", "share", "rounds", "skipped", "width", "mode", "loud", "doubled"),
    )

    link: AnyLink = "logistic"
    step: Positive = 1.0
    share: Probability = 0.5
    rounds: PositiveInt | None = None
    skipped: NonNegativeInt = 0
    width: Annotated[float, Bounds(at_least=1, at_most=10)] = 2.0
    mode: Literal["mean", "sum"] = "mean"
    pause: Positive | Literal["auto"] | None = None
    loud: bool = False
    unread: NonNegative = 7.0

    def doubled(self, dim: int) -> float:
        return 2.0 * self.step * dim

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:  # noqa: ARG004
        values = settings.step + settings.share + settings.rounds + settings.skipped + settings.width
        return int(values + settings.mode + settings.loud + settings.doubled)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:  # noqa: ARG004
        return state


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0}, "step must be a finite number above 0; got 0"),
        ({"step": "1"}, "step must be a finite number above 0; got '1'"),
        ({"share": 1.5}, "share must be a finite number at least 0 and at most 1; got 1.5"),
        ({"rounds": 2.0}, "rounds must be a whole number of at least 1; got 2.0"),
        ({"pause": "long"}, "pause must be a finite number above 0, or 'auto'; got 'long'"),
        ({"loud": 1}, r"loud must be bool\(...\); got 1"),
    ],
)
def test_value_out_of_bounds_is_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Example(**settings)


def test_unknown_choice_and_unknown_link_are_rejected() -> None:
    with pytest.raises(UnknownName, match="unknown mode 'max'"):
        Example(mode="max")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="unknown link 'logit'"):
        Example(link="logit")


def test_setting_may_be_a_number_a_word_or_none() -> None:
    assert [Example(pause=value).pause for value in (2, "auto", None)] == [2.0, "auto", None]
    (pause,) = (setting for setting in declared_settings(Example) if setting.name == "pause")
    assert pause.packed(2.0) == 2.0
    assert math.isnan(pause.packed("auto"))


def test_numpy_numbers_become_built_in_ones() -> None:
    policy = Example(step=np.float64(3.0), skipped=np.int64(2))  # type: ignore[arg-type]
    assert type(policy.step) is float
    assert type(policy.skipped) is int


def test_packed_settings_are_read_by_name() -> None:
    policy = Example(mode="sum", step=3.0)
    packed = unpacker(Example)(policy.packed_settings(5))
    assert (packed.step, packed.mode, packed.loud, packed.doubled) == (3.0, 1.0, 0.0, 30.0)
    assert math.isnan(packed.rounds)


def test_settings_that_are_not_declared_are_not_packed() -> None:
    packed = unpacker(Example)(Example().packed_settings(5))
    assert not hasattr(packed, "unread")
    np.testing.assert_array_equal(Example(unread=1.0).packed_settings(5), Example(unread=2.0).packed_settings(5))


def test_all_numeric_settings_are_packed_by_default() -> None:
    class Plain(Example):
        compiled_settings: ClassVar[tuple[str, ...] | None] = None

    assert [*packed_names(Plain)] == [setting.name for setting in declared_settings(Plain) if setting.is_packed]


def test_unknown_name_in_compiled_settings_is_rejected() -> None:
    class Misspelt(Example):
        compiled_settings: ClassVar[tuple[str, ...] | None] = ("step", "dubled")

    with pytest.raises(InvalidInput, match="compiled_settings of Misspelt has 'dubled', which is neither"):
        Misspelt().packed_settings(3)


def test_setting_that_is_read_but_not_declared_is_named() -> None:
    class Forgetful(Example):
        compiled_settings: ClassVar[tuple[str, ...] | None] = ("step",)

    with pytest.raises(InvalidInput, match=r"choose reads settings.share, but compiled code has only step"):
        check_can_run(Forgetful(), 3)


def all_kinds(kind: Any) -> list[Any]:
    """All policies of the package, with their variants and sparse forms."""
    found = [each for child in kind.__subclasses__() for each in (child, *all_kinds(child))]
    return [each for each in dict.fromkeys(found) if "policies.algorithms." in each.__module__]


def names_read(function: FunctionType) -> set[str]:
    codes = [each.__code__ for each in (function, *digest_of_code(function).functions)]
    return {name for code in codes for name in code.co_names}


@pytest.mark.parametrize("kind", all_kinds(Policy))
def test_built_in_policies_declare_the_settings_that_they_read(kind: Any) -> None:
    functions = decisions_of(kind).choose, decisions_of(kind).probabilities, kind.learn
    read = {name for function in functions for name in names_read(function)}
    assert set(packed_names(kind)) <= read
    assert read.isdisjoint({setting.name for setting in declared_settings(kind)} - {*packed_names(kind), "link"})


@pytest.mark.parametrize("name", POLICIES)
def test_settings_that_a_policy_accepts_can_be_packed(name: str) -> None:
    kind: Any = POLICIES[name]
    for setting in declared_settings(kind):
        for value in (1e-9, 1e9) if setting.kind in (int, float) else ():
            policy = None
            with suppress(InvalidInput):
                policy = kind(**{setting.name: setting.kind(value)})
            assert policy is None or policy.packed_settings(3).size > 0


def test_settings_are_frozen_equal_and_hashable() -> None:
    assert Example(step=2.0) == Example(step=2.0)
    assert len({Example(step=2.0), Example(step=2.0), Example()}) == 2
    with pytest.raises(AttributeError, match="cannot be changed"):
        Example().step = 2.0  # type: ignore[misc]


def test_setting_of_an_unsupported_type_is_rejected() -> None:
    class Odd(Policy):
        weights: tuple[float, ...] = ()

    with pytest.raises(InvalidInput, match=r"Odd.weights has the type .* which a setting cannot have"):
        Odd()


@pytest.mark.parametrize("name", POLICIES)
def test_every_bound_of_every_policy_is_enforced(name: str) -> None:
    kind: Any = POLICIES[name]
    for setting in declared_settings(kind):
        if setting.kind not in (float, int):
            continue
        bounds = setting.bounds
        too_low = bounds.above if bounds.above > -math.inf else bounds.at_least - 1
        for wrong in (too_low, math.inf, math.nan, "x", [1.0]):
            if wrong != -math.inf:
                with pytest.raises(InvalidInput, match=rf"^{setting.name} must be"):
                    kind(**{setting.name: wrong})


@pytest.mark.parametrize("name", POLICIES)
def test_every_setting_is_documented(name: str) -> None:
    kind: Any = POLICIES[name]
    text = "\n".join(base.__doc__ or "" for base in kind.__mro__)
    missing = [setting.name for setting in declared_settings(kind) if f"{setting.name}:" not in text]
    assert missing == [], f"the docstring of {kind.__name__} or of its bases says nothing about {missing}"
