"""The text form of policies: `sgd-ts`, `sgd-ts:step=0.5,draw=decision`, `module:Class:step=0.5`.

The command line, experiment files and the service all read policies and their settings with this module.
The settings are written like keyword arguments in Python. A value is a Python or JSON literal, such as 0.5, None, null,
true, "auto", [1, 2] or {"noise": 0.1}, or a word: `draw=decision` sets draw to "decision".
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from glbandits.common.errors import GlbanditsError, InvalidInput, UnknownName, lookup
from glbandits.common.user_code import load_object
from glbandits.policies import POLICIES
from glbandits.policies.agents import AgentFactory, PolicyLike, PolicyOrAgent, agent_factory
from glbandits.policies.contract import Policy, rebuild
from glbandits.policies.contract.policy_checks import check_is_policy

JSON_CONSTANTS = {"true": True, "false": False, "null": None}
WORD = re.compile(r"[\w.-]+")
MAX_LENGTH = 2_000
"""The most characters of the settings. Longer ones, which a client of the service may send, could exhaust the stack."""


class PolicyText(NamedTuple):
    """A policy as a text names it: the policy is not looked up yet."""

    name: str
    """A name of POLICIES, or `module:Class` for a user-defined policy."""
    settings: dict[str, Any]


def split_policy(text: str) -> PolicyText:
    """Split `name:setting=value,setting=value` or `name:{JSON}` into the name and the settings.

    Raises InvalidInput if the settings are not written like this. Imports nothing.

    >>> split_policy("sgd-ts:step=0.5,draw=decision")
    PolicyText(name='sgd-ts', settings={'step': 0.5, 'draw': 'decision'})
    >>> split_policy('optimist:{"link": "logistic", "half_life": null}').settings
    {'link': 'logistic', 'half_life': None}
    >>> split_policy("my_module:MyPolicy:step=0.5").name
    'my_module:MyPolicy'
    """
    name, _, listed = text.strip().partition(":")
    class_name, _, rest = listed.partition(":")
    if name not in POLICIES and class_name.isidentifier():
        name, listed = f"{name}:{class_name}", rest
    try:
        call = _parse_call(listed)
        settings = {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
        if len(settings) < len(call.keywords) or "None" in settings:  # given twice, or **settings
            raise ValueError(listed)
        for argument in call.args:  # JSON
            settings |= dict(_value(argument))
        if not all(isinstance(key, str) for key in settings):
            raise ValueError(listed)
        return PolicyText(name, settings)
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(f"settings are written {name}:name=value,name=value; got {listed[:80]!r}") from None


def as_policy(policy: Policy | str, **defaults: Any) -> Policy:
    """Return a policy unchanged, and create the policy of this package that a text names. `parse_policy` has defaults.

    Raises UnknownName for a name that is not in `POLICIES`. It never imports a user-defined policy: pass an instance.

    >>> as_policy("epsilon-greedy:exploration=2").exploration
    2.0
    """
    if not isinstance(policy, str):
        return check_is_policy(policy)
    lookup("policy", split_policy(policy).name, POLICIES)
    return parse_policy(policy, **defaults)


def as_policy_or_agent(given: PolicyLike, **defaults: Any) -> PolicyOrAgent:
    """Return the same as `as_policy`; a factory for a class or function that makes agents.

    >>> as_policy_or_agent("uniform").name
    'uniform'
    """
    return agent_factory(given) or as_policy(given, **defaults)  # type: ignore[arg-type]  # checked there


def parse_policy(text: str, **defaults: Any) -> Policy:
    """Create the policy that a text names. Raises InvalidInput if the text names an agent.

    Args:
        text: as for `split_policy`. A user-defined policy is imported.
        defaults: settings that are used if the policy has them and the text does not give them.

    >>> parse_policy("sgd-ts:step=0.5,draw=decision", horizon=1000).draw
    'decision'
    """
    policy = parse_policy_or_agent(text, **defaults)
    if isinstance(policy, AgentFactory):
        raise InvalidInput(f"this needs a compiled policy, a subclass of glbandits.Policy; got the agent {policy.name}")
    return policy


def parse_policy_or_agent(text: str, **defaults: Any) -> PolicyOrAgent:
    """Create the policy that a text names, or a factory of the agents that it names. `parse_policy` has the arguments.

    The settings of an agent are the parameters with which it is made.
    """
    name, settings = split_policy(text)
    kind: Any = find_policy(name)
    if isinstance(kind, AgentFactory):
        return kind.with_settings(settings, **defaults)
    known = {field.name: field for field in fields(kind)}
    for setting in settings:
        lookup(f"setting of {name}", setting, known)
    if "theory" not in settings:  # `theory` has its own horizon
        settings = {key: value for key, value in defaults.items() if key in known} | settings
    try:
        return rebuild(kind, settings)
    except GlbanditsError as error:
        error.field = None  # a setting is not the option of the same name
        raise


def parse_grid(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Parse the values to try for each setting, from texts such as `floor=0.01,0.05`.

    >>> parse_grid(["floor=0.01,0.05", "half_life=None,auto"])
    {'floor': (0.01, 0.05), 'half_life': (None, 'auto')}
    """
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        try:
            values = tuple(map(_value, _parse_call(listed).args))
        except (ValueError, RecursionError):
            values = ()
        if not values or not name or name in grid:
            raise InvalidInput(f"a grid is written setting=value,value, once for each setting; got {text!r}")
        grid[name] = values
    return grid


def find_policy(name: str) -> type[Policy] | AgentFactory:
    """Return the policy class of this name, or the user's own policy class or agents given as `module:Class`.

    The module may be in the current folder or anywhere on Python's import path.
    Raises UnknownName if there is no such policy, and InvalidInput if the module cannot be imported.
    """
    module_name, colon, class_name = str(name).partition(":")
    if not colon:
        return lookup("policy", name, POLICIES)
    kind = load_object(str(name))
    if isinstance(kind, type) and issubclass(kind, Policy):
        return kind
    factory = agent_factory(kind)
    if factory is None:
        raise UnknownName(
            f"{name!r} must name a subclass of glbandits.Policy, or a class or function that makes agents "
            f"(docs/write-a-policy.md); {module_name}.{class_name} is {kind!r}."
        )
    return factory


def _parse_call(arguments: str) -> ast.Call:
    """Parse a text like the arguments of a call in Python. Raises ValueError. Nothing is evaluated."""
    try:
        call = ast.parse(f"_({arguments[:MAX_LENGTH]})", mode="eval").body
    except (SyntaxError, MemoryError):
        raise ValueError(arguments) from None
    if not isinstance(call, ast.Call) or len(arguments) > MAX_LENGTH:
        raise ValueError(arguments)
    return call


def _value(node: ast.expr) -> Any:
    """Return the value of a literal, or else the text of a word. Raises ValueError, TypeError or RecursionError."""
    try:
        return ast.literal_eval(_JsonConstants().visit(node))
    except (ValueError, TypeError):
        word = ast.unparse(node).replace(" - ", "-")
        if WORD.fullmatch(word):
            return word
        raise ValueError(word) from None


class _JsonConstants(ast.NodeTransformer):
    """Replaces the names true, false and null by their Python values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(JSON_CONSTANTS[node.id]) if node.id in JSON_CONSTANTS else node
