from hypothesis import given
from hypothesis import strategies as st

from glbandits.features.natural_order import natural_order


@given(st.lists(st.text(alphabet="ab01239- "), unique=True))
def test_natural_order_is_independent_of_input_order(names: list[str]) -> None:
    assert natural_order(names) == natural_order(reversed(names))
    assert sorted(natural_order(names)) == sorted(names)


@given(st.lists(st.integers(0, 10**15), unique=True))
def test_numbers_are_sorted_numerically(numbers: list[int]) -> None:
    assert list(map(int, natural_order(map(str, numbers)))) == sorted(numbers)
