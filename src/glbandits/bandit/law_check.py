"""`check_policy`: test a policy or agents of your own by laws."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from glbandits.bandit import agent_laws, policy_laws
from glbandits.bandit.agent_laws import AgentSubject
from glbandits.bandit.policy_trials import Subject
from glbandits.common.errors import GlbanditsError, InvalidInput, ModelFileError, check_int, lookup
from glbandits.policies.agents import AgentFactory, PolicyLike
from glbandits.policies.contract.policy_checks import called
from glbandits.policies.parsing import as_policy_or_agent


def law_name(law: Callable[..., None]) -> str:
    """The name of a law in messages, and in `skip` of `check_policy`."""
    return law.__name__.replace("_", " ")


class _Check(NamedTuple):
    """The laws of policies or of agents, and one subject."""

    kind: str
    name: str
    subject: Any
    laws: Sequence[Callable[[Any], None]]
    needs: Mapping[Callable[[Any], None], Callable[[Any], None]]
    """For some laws another one, without which they say nothing more."""


def check_policy(policy: PolicyLike, dim: int = 12, *, sparse: bool = False, skip: str | Sequence[str] = ()) -> None:
    """Test a policy or agents by the laws that all must obey, as scikit-learn's `check_estimator` does for estimators.

    The laws of policies: the seed decides all choices and no other random numbers are used; states stay finite and
    valid on hard problems and for numbers of any size; choosing changes nothing; a saved Bandit continues bit for bit;
    exact probabilities and rankings agree with choices; settings are validated; the policy can be pickled; plain Python
    and machine code give the same bits (not tested if GLBANDITS_COMPILE is "never"). Takes seconds, and the time of
    compilation.

    The laws of agents: they choose and learn with any number of arms and features, leave both as they are, and play
    hard problems; the seed decides all choices; two agents share nothing; probabilities agree with choices; the class
    can be pickled and identified. Rewards are 0 and 1.

    Args:
        policy: a policy with its settings, such as `MyPolicy()`, or a class or function that makes agents.
        dim: the number of features of an arm in the trials.
        sparse: whether to test the sparse form of the policy, or agents with sparse rows.
        skip: names of laws that are not tested, as the message of a broken law has them.

    Raises:
        InvalidInput: if the policy breaks a law. The message has one line for each broken law, with its name.
        UnknownName: if `skip` has a name that is not that of a law.

    >>> from glbandits import LinUcb, check_policy
    >>> check_policy(LinUcb(), dim=2)
    """
    given = as_policy_or_agent(policy)
    check_int("dim", dim, at_least=1)
    if isinstance(given, AgentFactory):
        subject = AgentSubject(given, dim, sparse)
        check = _Check("agent", given.name, subject, agent_laws.LAWS, agent_laws.NEEDS)
    else:
        name, of_policy = type(given).__name__, Subject(given, dim, sparse)
        called("Bandit", of_policy.bandit)
        check = _Check("policy", name, of_policy, policy_laws.LAWS, policy_laws.NEEDS)
    _run(check, [skip] if isinstance(skip, str) else list(skip))


def _run(check: _Check, skip: list[str]) -> None:
    """Test all laws but those to skip. Raises InvalidInput with a line for each broken one."""
    laws = {law_name(law): law for law in check.laws}
    for name in skip:
        lookup("law to skip", name, laws)
    failed, broken = set[Callable[[Any], None]](), dict[str, str]()
    for name, law in laws.items():
        if name in skip:
            continue
        if check.needs.get(law) in failed:
            failed.add(law)
            continue
        try:
            called(check.name, law, check.subject)
        except GlbanditsError as error:
            failed.add(law)
            if not (broken and isinstance(error, ModelFileError)):  # another law has reported the state
                broken.setdefault(str(error), name)
    if broken:
        lines = "\n".join(f"- {name}: {message}" for message, name in broken.items())
        first = next(iter(broken.values()))
        raise InvalidInput(
            f"{check.name} breaks laws that every {check.kind} must obey:\n{lines}\n"
            f"To accept a broken law, name it: check_policy(..., skip=({first!r},))."
        )
