"""Average sensitivity and Fourier weights against their closed forms."""

import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parity_lib import Parity
from parity_lib.chapters import boolean
from parity_lib.chapters.boolean import (
    FUNCTIONS,
    average_sensitivity,
    cube,
    find_function,
    fourier_weights,
    from_table,
    k_parity,
    random_function,
    signed_table,
    walsh_hadamard,
)


def sensitivity_of(function, n):
    return float(average_sensitivity(signed_table(function, n)))


@pytest.mark.parametrize("n", [2, 5, 12])
def test_closed_forms_of_the_average_sensitivity(n):
    assert sensitivity_of(boolean.parity, n) == pytest.approx(n)
    assert sensitivity_of(boolean.first, n) == pytest.approx(1)
    assert sensitivity_of(boolean.mean, n) == pytest.approx(1 / n)
    assert sensitivity_of(k_parity(Parity(n, (1, 2))), n) == pytest.approx(2)
    # Ones must outnumber zeros: what counts are the edges between the two middle levels.
    edges = math.comb(n, n // 2) * (n - n // 2)
    assert sensitivity_of(boolean.majority, n) == pytest.approx(edges / 2 ** (n - 1))


@pytest.mark.parametrize("n", [4, 8, 12])
def test_other_functions_that_are_sensitive_to_many_bits(n):
    assert sensitivity_of(boolean.inner_product, n) == pytest.approx(n / 2)
    assert sensitivity_of(boolean.parity_and, n) == pytest.approx(n - 1)
    # An edge from weight w to w + 1 counts if one of them is a multiple of 3, that is unless w is 1 more than one.
    edges = sum(math.comb(n, w) * (n - w) for w in range(n) if w % 3 != 1)
    assert sensitivity_of(boolean.multiple_of_three, n) == pytest.approx(edges / 2 ** (n - 1))


def test_majority_is_about_the_root_of_two_n_over_pi():
    for n in (13, 19, 20):
        assert sensitivity_of(boolean.majority, n) == pytest.approx(math.sqrt(2 * n / math.pi), rel=0.03)


@pytest.mark.parametrize("bits", [(3,), (1, 4), (2, 5, 9), tuple(range(1, 11))])
def test_the_parity_of_k_bits_has_all_its_weight_at_degree_k(bits):
    weights = fourier_weights(signed_table(k_parity(Parity(10, bits)), 10))
    assert weights[len(bits)] == 1 and weights.sum() == 1


def test_a_parity_on_the_01_scale_is_the_task_of_the_other_chapters():
    task = Parity(6, (2, 3, 6))
    assert torch.equal(signed_table(k_parity(task), 6), task.labels(task.cube()))
    assert torch.equal(cube(6), task.cube())


def test_random_functions_are_half_sensitive_on_average():
    tables = torch.stack([signed_table(random_function(10, torch.Generator().manual_seed(s)), 10) for s in range(64)])
    assert float(average_sensitivity(tables).mean()) == pytest.approx(5, abs=0.05)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 2**30))
def test_the_fourier_sum_counts_the_bits_that_flip_the_value(n, seed):
    table = signed_table(random_function(n, torch.Generator().manual_seed(seed)), n)
    codes = torch.arange(2**n)
    flips = sum((table != table[codes ^ (1 << i)]).double().mean() for i in range(n))
    assert float(average_sensitivity(table)) == pytest.approx(float(flips))


def test_the_fast_transform_is_the_definition():
    values = torch.randn(3, 2**5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    characters = 1 - 2 * ((cube(5) @ cube(5).T) % 2)
    assert torch.allclose(walsh_hadamard(values), values @ characters / 2**5, atol=1e-15)


def test_a_table_is_read_in_the_order_of_the_cube():
    table = torch.arange(16)
    assert torch.equal(from_table(table)(cube(4)), table.double())


def test_bad_input_gets_one_sentence():
    for n in (0, 21, 2.0, True):
        with pytest.raises(ValueError, match=r"n, for all 2\^n inputs at once, must be a whole number in 1\.\.20, got"):
            cube(n)
    with pytest.raises(ValueError, match=r"in 1\.\.20"):
        random_function(21, torch.Generator())
    with pytest.raises(ValueError, match=r"the 2\^n values of a function, got 6"):
        walsh_hadamard(torch.ones(6))
    with pytest.raises(ValueError, match=r"in 1\.\.20, got 0"):
        average_sensitivity(torch.ones(1))
    with pytest.raises(ValueError, match="unknown function 'MEDIAN'; known: " + re.escape(", ".join(FUNCTIONS))):
        find_function("MEDIAN")
