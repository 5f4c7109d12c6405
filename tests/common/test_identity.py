import logging
import re
import shutil
import subprocess
import sys
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glbandits.common.errors import InvalidInput
from glbandits.common.identity import identity_of

Pair = namedtuple("Pair", "a b")


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Frozen:
    x: float
    y: Any = None


@dataclass
class Data:
    numbers: Any
    options: dict[str, int] = field(default_factory=dict)

    @cached_property
    def total(self) -> float:
        return float(np.sum(self.numbers))


class Plain:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x: Any) -> None:
        self.x = x


class OtherPlain(Plain):
    pass


def changed(size: int = 5000) -> np.ndarray[Any, Any]:
    array = np.zeros(size)
    array[size // 2] = 1e-300
    return array


class Names(list[str]):
    pass


DIFFERENT = [
    None, True, 1, 1.0, 0, False, 0.0, -0.0, 1j, "1", b"1", bytearray(b"1"), "", b"", (), [], {}, set(), frozenset(),
    float("nan"), float("inf"), 2**70, (1,), [1], {1}, {1: 1}, ((1,), 2), ((1, 2),), (1, (2,)), "ab", ("a", "b"),
    np.zeros(5000), changed(), np.zeros(5000, np.float32), np.zeros((50, 100)), np.zeros(5000, np.int64), np.array(0.0),
    np.float64(0), np.int64(0), np.array(["a"]), np.array(["a"], object), np.array([None]), np.datetime64("2026-01-01"),
    np.zeros(2, [("a", float), ("b", int)]), np.zeros(2, [("a", float), ("c", int)]),
    np.ma.array([1.0, 2.0], mask=[False, True]),
    np.ma.array([1.0, 2.0], mask=[True, False]), np.dtype(float),
    Frozen(1.0), Frozen(1), Frozen(1.0, 2), Data([1.0]), Data([1]), Data([1], {"a": 1}), Data(np.zeros(5000)),
    Data(changed()),
    Plain(x=1), Plain(x=2), OtherPlain(x=1), Plain(y=1), Slotted(1), Slotted(2), SimpleNamespace(x=1), Pair(1, 2),
    Pair(2, 1), Colour.RED, Colour.BLUE, Colour, Path("a"), Path("b"), Fraction(1, 3), Decimal("1.0"), Decimal("1.00"),
    datetime(2026, 1, 1), deque([1]), deque([1], 5), defaultdict(int, a=1), defaultdict(bool, a=1), Names(["a"]),
    OrderedDict(a=1), range(3), range(4), slice(1), int, str, np, scipy.sparse, np.mean, np.sum, np.add, len, max,
    "".join, ",".join, str.join, [].append, partial(max, 1), partial(max, 2), partial(min, 1), partial(max, key=len),
    SGDClassifier(), SGDClassifier(alpha=0.01), LogisticRegression(), make_pipeline(StandardScaler(), SGDClassifier()),
    LogisticRegression().fit([[0.0], [1.0]], [0, 1]), LogisticRegression().fit([[0.0], [2.0]], [0, 1]),
    scipy.sparse.csr_array(np.eye(3)), scipy.sparse.csr_array(np.eye(4)), scipy.sparse.csc_array(np.eye(3)),
    np.random.default_rng(1), np.random.default_rng(2), lambda: 1, lambda: 2, lambda x: x, lambda x=1: x, lambda x=2: x,
    lambda *, x=2: x, lambda: [0 for _ in ()], lambda: len, lambda: max, list[int], list[str],
    re.compile("a"), re.compile("b"),
]  # fmt: skip


def test_different_values_have_different_identities() -> None:
    identities: dict[str, Any] = {}
    for value in DIFFERENT:
        identity = identity_of(value)
        assert identity not in identities, (value, identities[identity])
        assert identity == identity_of(value)
        identities[identity] = value


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, (2.0, "x"), {"a": {3, 1, 2}}],
        lambda: Data(changed(), {"a": 1}),
        lambda: Plain(x=Frozen(1.0), y=np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        lambda: SGDClassifier(random_state=1).fit([[0.0], [1.0]], [0, 1]),
        lambda: np.random.default_rng(5),
        lambda: (lambda x: lambda y: x + y)([1]),
        lambda: partial(np.quantile, q=0.5),
        lambda: Path("a", "b"),
    ],
)
def test_equal_content_has_one_identity(make: Callable[[], Any]) -> None:
    assert identity_of(make()) == identity_of(make())


def test_order_in_memory_does_not_count() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    assert identity_of(matrix) == identity_of(np.asfortranarray(matrix)) == identity_of(np.tile(matrix, 2)[:, :3])


def test_elements_of_a_set_have_no_order() -> None:
    assert identity_of({f"x{i}" for i in range(50)}) == identity_of({f"x{i}" for i in reversed(range(50))})


def test_used_cached_property_does_not_count() -> None:
    data = Data([1.0])
    before = identity_of(data)
    assert data.total == 1.0
    assert identity_of(data) == before


def test_cycles_end() -> None:
    def cycle(content: int) -> list[Any]:
        ring: list[Any] = [content]
        ring.append({"ring": ring, "self": Plain(owner=ring)})
        return ring

    assert identity_of(cycle(1)) == identity_of(cycle(1)) != identity_of(cycle(2))


def test_long_chain_of_objects_is_identified() -> None:
    chain: Any = None
    for link in range(20_000):
        chain = Plain(link=link, following=chain)
    assert len(identity_of(chain)) == 32


def test_deeply_nested_tuple_is_refused() -> None:
    nested: Any = ()
    for _ in range(100_000):
        nested = (nested,)
    with pytest.raises(InvalidInput, match="nested too deeply"):
        identity_of(nested)


def test_polars_tables_count_by_content() -> None:
    polars = pytest.importorskip("polars")
    frames = [polars.DataFrame({"a": [1, last]}) for last in (2, 3)] + [polars.Series("a", [1, 2])]
    assert len({identity_of(frame) for frame in frames}) == 3
    assert identity_of(frames[0]) == identity_of(frames[0].clone())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda: iter_numbers(), r"the value is a builtins\.generator, which cannot be identified \(TypeError: cannot"),
        (lambda: {"a": [1, memoryview(b"")]}, r"the value\['a'\]\[1\] is a builtins\.memoryview"),
        (lambda: Plain(log=sys.stdout), r"the value\.log is a .*, which cannot .* a method __identity__\(\)"),
        (lambda: (lambda held: lambda: held)(iter_numbers()), r"the value\.held is a builtins\.generator"),
        (lambda: np.frompyfunc(abs, 1, 1), "the value is a numpy.ufunc, which cannot .* hides the function"),
        (
            lambda: Plain(x=NoIdentity()),
            r"the value\.x is a .*NoIdentity, which .*__identity__ raised KeyError: 'seed'",
        ),
        (lambda: WrongReduce(), r"the value is a .*WrongReduce, which cannot be identified \(TypeError"),
    ],
)
def test_unreadable_content_is_refused(value: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        identity_of(value())


def iter_numbers() -> Any:
    yield 1


class NoIdentity:
    def __identity__(self) -> int:
        return dict[str, int]()["seed"]


class WrongReduce:
    def __reduce__(self) -> Any:
        return 5


def test_own_identity_replaces_the_content() -> None:
    class Stream:
        def __init__(self, seed: int) -> None:
            self.seed, self.numbers = seed, iter_numbers()

        def __identity__(self) -> int:
            return self.seed

    assert identity_of(Stream(1)) == identity_of(Stream(1)) != identity_of(Stream(2))


def test_locks_and_loggers_hold_no_data() -> None:
    first, second = (
        Plain(lock=threading.Lock(), again=threading.RLock(), log=logging.getLogger("a")) for _ in range(2)
    )
    assert identity_of(first) == identity_of(second)


SOURCE = """
import math
from functools import lru_cache
import numpy as np
import identity_helpers
from identity_helpers import half

SCALE = 2.0
TABLE = {"a": np.arange(3.0)}

def helper(x):
    return x * SCALE

@lru_cache
def cached(x):
    return helper(x)

class Base:
    rate = 0.5

    def step(self, x):
        return cached(x) * self.rate

class Mine(Base):
    name = "mine"

    def __init__(self, dim):
        self.dim = dim

    def choose(self, arms, rng):
        return int(np.argmax(arms @ TABLE["a"])) + int(math.sqrt(0))

    def learn(self, x, reward):
        self.step(half(x)) + identity_helpers.third(x)

    def late(self):
        import identity_late
        return identity_late.VALUE
"""
HELPERS = "def half(x):\n    return x / 2\n\ndef third(x):\n    return x / 3\n\ndef unused(x):\n    return x\n"


LATE = "VALUE = 1"
Identify = Callable[..., str]


@pytest.fixture
def identity_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Identify:
    """Return a function that writes and imports modules, and returns the identity of the class Mine."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def identify(source: str = SOURCE, helpers: str = HELPERS, late: str = LATE) -> str:
        for name, text in (("identity_mine", source), ("identity_helpers", helpers), ("identity_late", late)):
            (tmp_path / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        invalidate_caches()
        return identity_of(import_module("identity_mine").Mine)

    return identify


def test_another_process_finds_the_same_identity(tmp_path: Path, identity_of_mine: Identify) -> None:
    here = identity_of_mine()
    code = "import identity_mine as m; from glbandits.common.identity import identity_of as i; print(i(m.Mine))"
    command = [sys.executable, "-B", "-c", code]
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip() == here


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SCALE = 2.0", "SCALE = 3.0"),
        ("np.arange(3.0)", "np.arange(1.0, 4.0)"),
        ("x * SCALE", "x - SCALE"),
        ("rate = 0.5", "rate = 0.6"),
        ("return cached(x) * self.rate", "return self.rate"),
        ("x / 2", "x / 4"),
        ("x / 3", "x / 4"),
        ("VALUE = 1", "VALUE = 2"),
        ("np.argmax", "np.argmin"),
    ],
)
def test_edit_of_own_code_changes_identity(identity_of_mine: Identify, old: str, new: str) -> None:
    edited = [text.replace(old, new) for text in (SOURCE, HELPERS, LATE)]
    assert identity_of_mine() != identity_of_mine(*edited)


def test_unrelated_edit_keeps_identity(identity_of_mine: Identify) -> None:
    edited = "# a remark\n" + SOURCE + "\nUNUSED = 1\n"
    assert identity_of_mine() == identity_of_mine(edited, HELPERS.replace("return x\n", "return -x\n"))


def test_own_module_named_like_a_standard_one_is_own_code(
    tmp_path: Path, identity_of_mine: Identify, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.replace("identity_late", "antigravity")
    identities = []
    for value in (1, 2):
        monkeypatch.delitem(sys.modules, "antigravity", raising=False)
        (tmp_path / "antigravity.py").write_text(f"VALUE = {value}")
        identities.append(identity_of_mine(source))
    assert identities[0] != identities[1]


def identity_in_new_process(folder: Path, expression: str) -> str:
    module = expression.partition(".")[0]
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); sys.modules.pop({module!r}, None); import {module}\n"
    code += f"from glbandits.common.identity import identity_of; print(identity_of({expression}))"
    return subprocess.run([sys.executable, "-B", "-c", code], check=True, capture_output=True, text=True).stdout


def test_own_extension_module_counts_by_its_file(tmp_path: Path) -> None:
    origin = getattr(import_module("_bisect"), "__file__", None)
    if origin is None:
        pytest.skip("this Python has no file of _bisect")
    copied = Path(shutil.copy(origin, tmp_path))
    before = identity_in_new_process(tmp_path, "_bisect.bisect_left")
    copied.write_bytes(copied.read_bytes() + b" ")
    assert identity_in_new_process(tmp_path, "_bisect.bisect_left") != before


def test_library_in_any_folder_counts_by_its_version(tmp_path: Path) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed/installed_here.py").write_text("def f(): return 1")
    information = tmp_path / "installed/Installed_Here-2.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: Installed-Here\nVersion: 2.0\n")
    identities = []
    for record in ("installed_here.py,,\n", "another.py,,\n"):
        (information / "RECORD").write_text(record)
        for number in (1, 2):
            (tmp_path / "installed/installed_here.py").write_text(f"def f(): return {number}")
            identities.append(identity_in_new_process(tmp_path / "installed", "installed_here.f"))
    assert identities[0] == identities[1]
    assert len(set(identities)) == 3


def test_closures_count_by_content() -> None:
    def scaled(factor: Any) -> Callable[[float], float]:
        return lambda x: x * factor

    assert identity_of(scaled(1.0)) == identity_of(scaled(1.0)) != identity_of(scaled(2.0))
    assert identity_of(scaled(np.zeros(5000))) != identity_of(scaled(changed()))


def test_closure_variable_cannot_pose_as_another() -> None:
    def first(name: int, defaults: int) -> Callable[[], int]:
        return lambda: name + defaults

    assert identity_of(first(1, 2)) != identity_of(first(2, 1))


def test_recursive_functions_are_identified() -> None:
    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    assert identity_of(even) != identity_of(odd)


def test_functions_of_libraries_with_parameters_are_told_apart() -> None:
    from glbandits.lab.environments import gaussian

    assert identity_of(gaussian(1.0).draw) == identity_of(gaussian(1.0).draw)
    assert identity_of(gaussian(1.0)) != identity_of(gaussian(2.0))


def test_module_without_a_file_counts_by_its_functions() -> None:
    module = ModuleType("made_here")
    exec("def f(x):\n    return g(x)\ndef g(x):\n    return x + 1\n", module.__dict__)
    before = identity_of(module.f)
    exec("def g(x):\n    return x + 2\n", module.__dict__)
    assert identity_of(module.f) != before


def test_lru_cache_counts_as_its_function() -> None:
    def one() -> int:
        return 1

    def two() -> int:
        return 2

    assert identity_of(lru_cache(one)) != identity_of(lru_cache(two))
