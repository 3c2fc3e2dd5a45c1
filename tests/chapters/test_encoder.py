"""The fused steps are torch's own encoder, their metrics are the authors', and training learns."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from checkouts import ROOT

from parity_lib.chapters import boolean, encoder_kernel, encoder_reference
from parity_lib.chapters import encoder as encoder_module
from parity_lib.chapters.boolean import cube
from parity_lib.chapters.encoder import (
    TORCH_NAMES,
    Encoder,
    LiteralEncoder,
    Settings,
    blowup,
    look_at,
    parameter_norm,
    predictions,
    sharpness,
    train_encoder,
    train_encoders,
)

SHORT = Settings(steps=100, least=100, finish=50)


def drawn(encoder, spread=0.3):
    noise = torch.randn(encoder.numbers, generator=torch.Generator().manual_seed(7))
    return encoder.start(0) + spread * noise


def bits(count, n):
    return torch.randint(2, (count, n), generator=torch.Generator().manual_seed(1), dtype=torch.float32)


@pytest.mark.parametrize("n, width", [(1, 4), (6, 8), (9, 32), (70, 32)])
def test_every_engine_equals_torchs_own_encoder_to_rounding(n, width):
    encoder, x = Encoder(n, width), bits(20, n)
    row = drawn(encoder)
    literal = LiteralEncoder.of_row(encoder, row)
    with torch.no_grad():
        expected = literal(x).numpy()
    for way in (encoder_kernel, encoder_reference):
        assert np.allclose(way.predict(row.numpy(), encoder.codes(x), n, width), expected, rtol=0, atol=2e-5)


def test_gradients_equal_those_of_torchs_own_encoder_in_double_precision():
    encoder, x = Encoder(7, 32), bits(40, 7)
    row, y = drawn(encoder), boolean.parity(x)
    literal = LiteralEncoder.of_row(encoder, row.double())
    (literal(x) - y).square().mean().backward()
    slopes = np.empty(encoder.numbers, np.float32)
    for way in (encoder_kernel, encoder_reference):
        loss = way.gradient(row.numpy(), encoder.codes(x), y.numpy(), 7, 32, slopes)
        assert loss == pytest.approx(float((literal(x) - y).square().mean().detach()), rel=1e-5)
        views = encoder.views(torch.from_numpy(slopes))
        for theirs, ours in TORCH_NAMES.items():
            expected = literal.get_parameter(theirs).grad.float()
            assert torch.allclose(views[ours].view_as(expected), expected, rtol=1e-3, atol=2e-5), ours


def test_an_encoder_has_the_authors_number_of_parameters():
    for width, count in ((4, 281), (32, 12_993), (128, 199_425)):
        encoder = Encoder(10, width)
        assert encoder.numbers - encoder.positions == count


def test_a_start_is_that_of_torchs_layers():
    encoder = Encoder(6, 64)
    mine = encoder.views(encoder.start(0, position_scale=0.1))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = LiteralEncoder(6, 64)
    for theirs, ours in TORCH_NAMES.items():
        expected = fresh.get_parameter(theirs).detach()
        if expected.numel() > 1000:
            assert float(mine[ours].std()) == pytest.approx(float(expected.std()), rel=0.15), ours
        elif ours.startswith(("in_bias", "out_bias", "norm")):
            assert torch.equal(mine[ours], expected), ours
    assert float(mine["position"].std()) == pytest.approx(0.1, rel=0.2)
    assert not torch.equal(mine["up_weight1"], mine["up_weight2"])


def test_metrics_are_the_authors():
    encoder, x = Encoder(4, 8), cube(4, torch.float32)
    row = drawn(encoder)
    counted = [view for name, view in encoder.views(row).items() if name != "position"]
    expected = math.sqrt(sum(float(part.square().sum()) for part in counted))
    assert parameter_norm(encoder, row.numpy()) == pytest.approx(expected)
    literal, entering = LiteralEncoder.of_row(encoder, row), []
    for layer in literal.body.layers:
        for norm in (layer.norm1, layer.norm2):
            norm.register_forward_hook(lambda module, inputs, output: entering.append(inputs[0].detach()))
    literal(x)
    largest = [(1 / u.std(-1)).amax(-1) for u in entering[:2]] + [1 / u[:, -1].std(-1) for u in entering[2:]]
    outputs, taus = look_at(encoder, row.numpy())
    assert blowup(taus) == pytest.approx(float(math.prod(largest).mean()), rel=1e-4)
    assert np.allclose(outputs, predictions(encoder, row.numpy(), x), atol=1e-6)
    slow = encoder_reference.look(row.numpy(), encoder.codes(x), 4, 8)[1]
    assert np.allclose(slow, torch.stack(largest).numpy(), rtol=1e-4)


def test_measurements_in_parts_are_those_in_one(monkeypatch):
    encoder, x = Encoder(5, 8), cube(5, torch.float32)
    row = drawn(encoder).numpy()
    whole = look_at(encoder, row, x)
    monkeypatch.setattr(encoder_module, "MEASURE_MEMORY", 20_000)  # a few inputs at a time
    assert 1 < len(list(encoder_module.in_parts(encoder, row, x))) < 32
    for part, before in zip(look_at(encoder, row, x), whole, strict=True):
        assert np.allclose(part, before, rtol=1e-5, atol=1e-6)


def test_sharpness_of_a_read_out_alone_is_its_closed_form():
    """All else fixed, noise in w and b gives 4 ε² (|h|² + 1); here h is (1, ..., 1) whatever the input."""
    encoder = Encoder(3, 8)
    row = encoder.start(0)
    views = encoder.views(row)
    views["norm2_gain2"].zero_()
    views["norm2_bias2"].fill_(1.0)
    views["read_weight"].zero_()
    views["read_bias"].zero_()
    rises = sharpness(encoder, row.numpy(), lambda x: 0 * x[..., 0], perturbations=2000, batch=1, scale=1e-3)
    assert rises.shape == (2000,) and len(set(rises.round(12))) > 1900
    assert float(rises.mean()) == pytest.approx(4 * 1e-6 * (8 + 1), rel=0.1)


def test_positions_are_not_perturbed_and_count_in_no_norm():
    encoder = Encoder(3, 8)
    row = torch.zeros(encoder.numbers)
    encoder.views(row)["position"].fill_(1)
    assert parameter_norm(encoder, row.numpy()) == 0


def loss_of(encoder, row, function):
    """Squared error of a model over its inputs."""
    x = encoder.inputs()
    return float(np.mean((predictions(encoder, row, x) - function(x).numpy()) ** 2))


def test_loss_is_the_mean_over_the_cube():
    encoder = Encoder(5, 8)
    row = drawn(encoder).numpy()
    outputs = predictions(encoder, row, cube(5, torch.float32))
    assert loss_of(encoder, row, boolean.mean) == pytest.approx(np.mean((outputs - boolean.mean(cube(5)).numpy()) ** 2))
    assert len(Encoder(16).inputs()) == 2**14


def test_a_step_is_torchs_adamw_on_either_engine(monkeypatch):
    encoder, settings = Encoder(3, 8), replace(SHORT, weight_decay=0.2)
    generator = torch.Generator().manual_seed(2**41 + 1)
    inputs = torch.randint(2, (50, 64, 3), generator=generator, dtype=torch.float32)
    row = encoder.start(1).requires_grad_()
    optimiser = torch.optim.AdamW([row], lr=1e-3, weight_decay=0.2)
    for x in inputs:
        optimiser.zero_grad()
        outputs, _ = encoder_reference.forward(row, torch.from_numpy(encoder.codes(x)).long(), 3, 8)
        (outputs - boolean.parity(x)).square().mean().backward()
        optimiser.step()
    for way in (encoder_kernel, encoder_reference):
        monkeypatch.setattr(encoder_module, "train_steps", way.train_steps)
        trained = train_encoder(encoder, boolean.parity, 1, settings, keep_every=50)
        assert np.allclose(trained.frames[0], row.detach().numpy(), atol=2e-4)


def test_a_pool_is_all_that_a_model_sees_and_bits_that_are_not_free_are_zero():
    seen = []

    def parity(x):
        seen.append(x)
        return boolean.parity(x)

    train_encoder(Encoder(3, 8), parity, 0, SHORT, pool=cube(3)[:2])
    assert {tuple(row.tolist()) for x in seen for row in x.flatten(0, -2)} == {(0, 0, 0), (1, 0, 0)}
    seen.clear()
    train_encoder(Encoder(6, 8), parity, 0, replace(SHORT, free_bits=2))
    assert float(seen[0][..., 2:].max()) == 0 and float(seen[0][..., :2].max()) == 1


def test_a_curriculum_frees_the_bits_one_by_one_and_a_run_that_has_learned_stops_early():
    free = []

    def first(x):
        free.append(int((x.flatten(0, -2).amax(0) > 0).sum()))
        return boolean.first(x)

    settings = Settings(steps=3000, least=600, finish=300, free_bits=2)
    trained = train_encoder(Encoder(5, 16), first, 0, settings)
    assert free[0] == 2 and free[-1] == 5 and set(np.diff(free)) <= {0, 1}
    assert trained.learned < math.inf and len(trained.loss) < 3000
    assert loss_of(Encoder(5, 16), trained.row, boolean.first) < 1e-3


def test_a_run_stops_at_the_loss_that_is_enough():
    settings = Settings(steps=2000, least=2000, finish=500, enough=1e-3)
    trained = train_encoder(Encoder(3, 16), boolean.first, 0, settings)
    assert len(trained.loss) < 1000 and trained.loss[-50:].mean() < 1e-3 <= trained.loss[-100:-50].mean()


def test_a_run_that_is_not_at_that_loss_has_a_second_end_with_larger_batches_and_others_have_not(monkeypatch):
    encoder, shapes = Encoder(3, 16), []
    steps = encoder_module.train_steps

    def seen(row, mean, square, done, codes, *rest):
        shapes.append(codes.shape[:2])
        return steps(row, mean, square, done, codes, *rest)

    monkeypatch.setattr(encoder_module, "train_steps", seen)
    how = Settings(steps=600, least=400, finish=200, polish=100, enough=1e-12)
    run = train_encoder(encoder, boolean.first, 0, how)
    assert len(run.loss) == 400 + 100 and shapes[-3:] == [(50, 64), (50, 256), (50, 256)]
    stopped = train_encoder(encoder, boolean.first, 0, replace(how, enough=1e-3))
    never = train_encoder(encoder, boolean.parity, 0, replace(how, steps=50, least=50, finish=50))
    assert len(stopped.loss) < 400 and len(never.loss) == 50  # nor has a run that has not learned


def test_noise_that_follows_the_run_grows_only_while_the_loss_is_bearable(monkeypatch):
    encoder, levels = Encoder(3, 16), []
    steps = encoder_module.train_steps

    def seen(*given):
        levels.append(float(given[8][:, encoder.positions :].std()))
        return steps(*given)

    monkeypatch.setattr(encoder_module, "train_steps", seen)
    for bearable, factor in ((100.0, 1.02), (1e-9, 0.95)):
        levels.clear()
        train_encoder(encoder, boolean.first, 0, replace(SHORT, noise=0.02, bearable=bearable))
        assert levels[0] == pytest.approx(0.002, rel=0.02) and levels[1] == pytest.approx(factor * levels[0], rel=0.02)


def test_a_run_that_noise_has_lost_goes_back_to_weights_that_bore_it(monkeypatch):
    encoder, starts, levels = Encoder(3, 16), [], []
    shown = iter([0.01, *[0.3] * encoder_module.PATIENCE, 0.3])

    def pretended(row, mean, square, done, codes, values, rates, decay, noise, n, width, loss):
        starts.append(row.copy())
        levels.append(float(noise[:, encoder.positions :].std()))
        row += 1
        loss[:] = next(shown)
        return done + len(loss)

    monkeypatch.setattr(encoder_module, "train_steps", pretended)
    steps = 50 * (encoder_module.PATIENCE + 2)
    how = Settings(steps, least=steps, finish=50, noise=0.02, bearable=0.02)
    train_encoder(encoder, boolean.parity, 0, how)
    assert np.array_equal(starts[-1], starts[1]) and not np.array_equal(starts[-2], starts[1])
    assert levels[-1] == pytest.approx(0.8 * 0.95 * levels[-2], rel=0.02)


TRAINED = """
import sys, numpy as np
from parity_lib.chapters import boolean
from parity_lib.chapters.encoder import Encoder, Settings, train_encoders
settings = Settings(steps=40, least=40, finish=20)
trained = train_encoders(Encoder(12), [boolean.parity], [0], settings)[0]
sys.stdout.write(trained.row.tobytes().hex() + trained.loss.tobytes().hex())
"""


def test_it_trains_to_the_same_bytes_whatever_the_environment_says_about_threads():
    """JupyterLab, Binder and plain papermill say nothing; `parity run` says one."""
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    plain |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    found = []
    for threads in ({}, {"OMP_NUM_THREADS": "1"}):
        command = [sys.executable, "-c", TRAINED]
        done = subprocess.run(command, capture_output=True, text=True, env=plain | threads, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert len(found[0]) > 1000 and found[0] == found[1]


def test_bad_input_gets_one_sentence():
    with pytest.raises(ValueError, match="n must be a whole number of at least 1, got 0"):
        Encoder(0)
    with pytest.raises(ValueError, match="width must be an even whole number of at least 2, got 7"):
        Encoder(4, 7)
    with pytest.raises(ValueError, match="need 1 <= finish <= least <= steps, got 50, 100 and 60"):
        replace(SHORT, steps=60)
    with pytest.raises(ValueError, match="learning_rate must be positive and finite, got 0"):
        replace(SHORT, learning_rate=0)
    with pytest.raises(ValueError, match="give one function per seed, got 1 and 2"):
        train_encoders(Encoder(3, 8), [boolean.parity], [0, 1], SHORT)
