"""The certified trap: enclosures that hold what they should, and a proof that can fail."""

from dataclasses import replace

import pytest
import torch
from mpmath import iv

from parity_lib import EnumeratedRisk, Parity
from parity_lib.chapters.certificate import TRAPS, _chance, certify
from parity_lib.chapters.lemmas import hessians


@pytest.fixture(scope="module")
def certificates():
    return {name: certify(trap) for name, trap in TRAPS.items()}


def heads_of(trap, seed, share):
    """Random heads in the ball, at a share of its radius, in the coordinates a / temperature."""
    generator = torch.Generator().manual_seed(seed)
    centre = torch.tensor([[float(part) for part in head] for head in trap.centre], dtype=torch.float64)
    away = torch.randn(centre.shape, generator=generator, dtype=torch.float64)
    return centre + share * float(trap.radius) * away / away.norm()


@pytest.mark.parametrize("name", TRAPS)
def test_the_ball_holds_a_minimum_far_above_the_solution(certificates, name):
    found = certificates[name]
    assert found.holds and found.risk_low > 1.6 and found.curvature_low > 0 and found.chance > 0
    assert found.gradient < found.curvature_low * float(TRAPS[name].radius)


@pytest.mark.parametrize("name", TRAPS)
def test_the_enclosures_contain_the_risk_and_its_hessian_at_points_of_the_ball(certificates, name):
    trap, found = TRAPS[name], certificates[name]
    risk = EnumeratedRisk(Parity(trap.n, trap.bits), "squared_hinge", 1.0, float(trap.smoothing))
    points = torch.stack([heads_of(trap, seed, share) for seed, share in enumerate((0.0, 0.3, 0.9, 1.0))])
    assert all(found.risk_low <= value <= found.risk_high for value in risk(points).tolist())
    bends = torch.linalg.eigvalsh(hessians(risk, points))
    assert bends.min() > found.curvature_low and bends.max() < found.curvature_high
    assert risk.value_and_gradient(points[0])[1].norm() < 1e-12


@pytest.mark.parametrize("name", TRAPS)
def test_descent_with_the_largest_certified_step_stays_in_the_ball(certificates, name):
    trap, found = TRAPS[name], certificates[name]
    temperature = float(trap.c1) / trap.n
    risk = EnumeratedRisk(Parity(trap.n, trap.bits), "squared_hinge", temperature, float(trap.smoothing))
    heads, centre = temperature * heads_of(trap, 5, 0.99), heads_of(trap, 0, 0.0)
    for _ in range(60):
        heads = heads - found.step * risk.value_and_gradient(heads)[1]
        assert (heads / temperature - centre).norm() < float(trap.radius)
        assert risk(heads) > found.risk_low


def test_a_start_of_the_paper_can_lie_in_the_ball():
    for trap in TRAPS.values():
        norms = heads_of(trap, 0, 0.0).norm(dim=1)
        assert norms.tolist() == pytest.approx([trap.n / float(trap.c1)] * len(trap.bits), abs=float(trap.radius) / 4)


def test_the_proof_fails_where_there_is_no_trap():
    trap = TRAPS["two bits"]
    assert not certify(replace(trap, smoothing="0.2")).holds  # no stationary point there any more
    assert not certify(replace(trap, radius="0.05")).holds  # too large a ball for this enclosure
    centre = [[iv.mpf(part) for part in head] for head in trap.centre]
    assert _chance(replace(trap, c1="0.5"), centre, iv.mpf(trap.radius)) == 0  # the start's circle misses the ball
