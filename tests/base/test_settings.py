"""The checks that settings of all estimators go through: what each refuses, and its edges."""

import numpy as np
import pytest

from manyhands._base import checks

NO_NUMBERS = [True, "1", None, [1], 1j]


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize(
    "check",
    [
        lambda value: checks.check_number("n", value, least=0),
        lambda value: checks.check_number("n", value, least=0, whole=True),
        lambda value: checks.check_positive("n", value),
        lambda value: checks.check_between("n", value),
        lambda value: checks.check_strength([] if value is None else value),
        lambda value: checks.check_stopping(value, 0),
        lambda value: checks.check_stopping(1, value),
        lambda value: checks.check_pairing(value, 1),
        lambda value: checks.check_pairing(0, value),
    ],
)
def test_what_is_no_number_is_no_setting(check, value):
    with pytest.raises(TypeError, match=r"must be a (whole )?number"):
        check(value)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda x: checks.check_number("n", x, least=2), [2, 2.5, np.int8(3), 2**62], [1.999, -3, np.nan, np.inf]),
        (lambda x: checks.check_number("n", x, least=0, most=4), [0, 4, np.float32(1)], [4.001, -1e-9]),
        (lambda x: checks.check_number("n", x, least=1, whole=True), [1, np.uint8(7), 2**63 - 1], [0, 2**63]),
        (lambda x: checks.check_positive("n", x), [1e-30, 5, 1e15], [0, 0.0, -1, 1e-300, 1e16, np.nan, np.inf]),
        (lambda x: checks.check_between("n", x), [1e-9, 0.5, 1 - 1e-9], [0, 1, 1.5, -0.5, np.nan]),
        (checks.check_strength, [1e-6, 3, 1e9, np.inf, None], [0, -1, 1e-9, 1e10, np.nan]),
        (lambda x: checks.check_stopping(x, 0), [1, 10], [0, -1]),
        (lambda x: checks.check_stopping(1, x), [0, 1e-6], [-1e-9, np.nan, np.inf]),
        (lambda x: checks.check_pairing(x, 1), [0, 0.5, 3], [-1, np.nan]),
        (lambda x: checks.check_pairing(0, x), [1, 5], [0]),
    ],
)
def test_settings_are_refused_exactly_outside_their_bounds(check, good, bad):
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(ValueError, match="must"):
            check(value)


def test_whole_numbers_are_whole():
    with pytest.raises(TypeError, match=r"2\.0"):
        checks.check_number("n", 2.0, least=0, whole=True)


def test_choices_name_what_there_is():
    checks.check_choice("ties", "first", ("first", "random"))
    with pytest.raises(ValueError, match=r"ties.*'first'.*'last'"):
        checks.check_choice("ties", "last", ("first", "random"))


def test_strengths_come_back_as_floats():
    assert checks.check_strength(None) is None
    assert isinstance(checks.check_strength(2), float)
