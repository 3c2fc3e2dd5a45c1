"""What counts as sharing a direction (Figure 2, right)."""

import math

import pytest
import torch

from parity_lib import RECIPES, Parity, Run, soft_attention
from parity_lib.chapters.figure2 import offset_from_middle, room_for_offset, shares_direction, splits_pair


def at(positions: list[list[float]], sharpness: float = 200.0) -> torch.Tensor:
    angle = 2 * math.pi * torch.tensor(positions, dtype=torch.float64) / 20
    return sharpness * torch.stack([angle.sin(), angle.cos()], dim=-1)


def test_a_shared_direction_is_two_heads_half_way_and_the_rest_on_their_bits():
    task = Parity(20, (5, 16, 17))
    heads = at([[5, 16.5, 16.55], [16.5, 16.5, 5], [5, 16, 17], [16.5, 16.5, 16.5], [5, 16.5, 16.7], [9, 16.5, 16.5]])
    run = Run((task,), RECIPES["figure2-signed"], tuple(range(6)), heads.unsqueeze(0), torch.zeros(1, 6))
    assert shares_direction(run, (16, 17)).tolist() == [True, True, False, False, False, False]
    around = Parity(20, (1, 10, 20))
    wrapped = Run((around,), RECIPES["figure2-signed"], (0,), at([[10, 20.5, 0.5]]).unsqueeze(0), torch.zeros(1, 1))
    assert shares_direction(wrapped, around.neighbours[0]).tolist() == [True]


def test_heads_that_split_a_pair_are_found_by_attention_and_may_point_off_the_middle():
    task = Parity(20, (5, 16, 17))
    heads = at([[5, 16.5, 16.7], [16.5, 16.5, 5], [5, 16, 17], [16.5, 16.5, 16.5]]) / 20
    run = Run((task,), RECIPES["figure2-signed"], tuple(range(4)), heads.unsqueeze(0), torch.zeros(1, 4))
    wanted = [[False, True, True], [True, True, False], [False] * 3, [False] * 3]
    assert splits_pair(run, (16, 17)).tolist() == wanted
    assert offset_from_middle(run, (16, 17))[0].tolist() == pytest.approx([8.5, 0, 0.2])
    room = room_for_offset(run)[0, 1]  # at the edge of what is admitted, the two shares are as 0.7 to 0.3
    edge = soft_attention(at([[16.5 + float(room)]]) * float(heads[0, 1].norm() / at([[16.5]]).norm()), 20, 1.0)[0, 0]
    assert float(edge[16] / edge[15]) == pytest.approx(7 / 3)
