"""The stacked encoder is torch's, its metrics are the authors', and its training learns."""

import math
from dataclasses import replace

import pytest
import torch

from parity_lib.chapters import boolean
from parity_lib.chapters import encoder as encoder_module
from parity_lib.chapters.boolean import cube
from parity_lib.chapters.encoder import (
    Encoder,
    LiteralEncoder,
    Settings,
    blowup,
    exact_loss,
    parameter_norm,
    predictions,
    sharpness,
    train_encoders,
)

SHORT = Settings(steps=60)


def drawn(encoder, models, spread=0.3):
    generator = torch.Generator().manual_seed(7)
    rows = encoder.start(range(models), dtype=torch.float64)
    return rows + spread * torch.randn(rows.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("n, width", [(1, 4), (6, 8), (9, 32)])
def test_a_stack_equals_torchs_own_encoder_to_rounding(n, width):
    encoder = Encoder(n, width)
    rows = drawn(encoder, 3)
    x = torch.randint(2, (3, 20, n), generator=torch.Generator().manual_seed(1)).double()
    outputs = encoder(rows, x)
    for model in range(3):
        literal = LiteralEncoder.of_row(encoder, rows[model])
        assert torch.allclose(outputs[model], literal(x[model]), rtol=0, atol=1e-12)


def test_gradients_equal_those_of_torchs_own_encoder():
    encoder = Encoder(5, 8)
    rows = drawn(encoder, 2).requires_grad_()
    x = torch.randint(2, (2, 20, 5), generator=torch.Generator().manual_seed(1)).double()
    (gradient,) = torch.autograd.grad((encoder(rows, x) - 1).square().sum(), rows)
    views = encoder.views(gradient)
    for model in range(2):
        literal = LiteralEncoder.of_row(encoder, rows[model].detach())
        (literal(x[model]) - 1).square().sum().backward()
        for theirs, ours in literal.names().items():
            expected = literal.get_parameter(theirs).grad
            assert torch.allclose(views[ours][model].view_as(expected), expected, rtol=1e-9, atol=1e-10), ours


def test_an_encoder_has_the_authors_number_of_parameters():
    for width, count in ((4, 281), (32, 12_993), (128, 199_425)):
        encoder = Encoder(10, width)
        assert encoder.numbers - encoder.positions == count


def test_a_start_is_that_of_torchs_layers():
    encoder = Encoder(6, 64)
    rows = encoder.start(range(8), position_scale=0.1, dtype=torch.float64)
    mine = encoder.views(rows)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fresh = LiteralEncoder(6, 64).double()
    for theirs, ours in fresh.names().items():
        expected = fresh.get_parameter(theirs).detach()
        if expected.dim() > 1 and ours != "position":
            assert float(mine[ours].std()) == pytest.approx(float(expected.std()), rel=0.15), ours
        elif ours.startswith(("in_bias", "out_bias", "norm")):
            assert torch.equal(mine[ours][0], expected), ours
    assert float(mine["position"].std()) == pytest.approx(0.1, rel=0.1)
    assert not torch.equal(mine["up_weight1"], mine["up_weight2"])


def test_metrics_are_the_authors():
    encoder = Encoder(4, 8)
    rows, x = drawn(encoder, 2), cube(4)
    counted = [view[0] for name, view in encoder.views(rows).items() if name != "position"]
    expected = math.sqrt(sum(float(part.square().sum()) for part in counted))
    assert float(parameter_norm(encoder, rows)[0]) == pytest.approx(expected)
    literal, entering = LiteralEncoder.of_row(encoder, rows[0]), []
    for layer in literal.body.layers:
        for norm in (layer.norm1, layer.norm2):
            norm.register_forward_hook(lambda module, inputs, output: entering.append(inputs[0].detach()))
    literal(x)
    largest = [(1 / u.std(-1)).amax(-1) for u in entering[:2]] + [1 / u[:, -1].std(-1) for u in entering[2:]]
    product = math.prod(largest).mean()
    assert float(blowup(encoder, rows, x)[0]) == pytest.approx(float(product))


def test_measurements_in_parts_are_those_in_one(monkeypatch):
    encoder = Encoder(5, 8)
    rows, x = drawn(encoder, 2), cube(5)
    whole = predictions(encoder, rows, x), blowup(encoder, rows, x)
    monkeypatch.setattr(encoder_module, "MEASURE_MEMORY", 60_000)  # a few inputs at a time
    parts = predictions(encoder, rows, x), blowup(encoder, rows, x)
    assert 1 < len(list(encoder_module._parts(encoder, rows, x))) < 32
    assert all(torch.allclose(a, b, rtol=1e-12) for a, b in zip(whole, parts, strict=True))


def test_sharpness_of_a_read_out_alone_is_its_closed_form():
    """All else fixed, noise in w and b gives 4 ε² (|h|² + 1); here h has length sqrt(d) up to the norm's epsilon."""
    encoder = Encoder(3, 8)
    rows = encoder.start([0], dtype=torch.float64)
    views = encoder.views(rows)
    views["norm2_gain2"].zero_()
    views["norm2_bias2"].fill_(1.0)  # the last layer says (1, ..., 1) whatever the input
    views["read_weight"].zero_()
    views["read_bias"].zero_()
    zero = [lambda x: torch.zeros(x.shape[:-1], dtype=x.dtype)]
    rises = sharpness(encoder, rows, zero, torch.Generator().manual_seed(0), batches=4000, batch=1, scale=1e-4)
    assert rises.shape == (1, 4000)
    assert float(rises.mean()) == pytest.approx(4 * 1e-8 * (8 + 1), rel=0.1)


def test_every_batch_has_its_own_perturbation_and_positions_have_none():
    encoder = Encoder(3, 8)
    rows = encoder.start([0, 1])
    constant = [lambda x: torch.zeros(x.shape[:-1])] * 2
    rises = sharpness(encoder, rows, constant, torch.Generator().manual_seed(0), batches=20)
    assert len({round(float(value), 9) for value in rises[0]}) == 20
    only_positions = torch.zeros_like(rows)
    encoder.views(only_positions)["position"].fill_(1)
    assert float(parameter_norm(encoder, only_positions).max()) == 0


def test_exact_loss_is_the_mean_over_the_cube():
    encoder = Encoder(5, 8)
    rows = drawn(encoder, 2)
    functions = [boolean.parity, boolean.mean]
    outputs = predictions(encoder, rows, cube(5))
    expected = [(outputs[i] - f(cube(5))).square().mean() for i, f in enumerate(functions)]
    assert torch.allclose(exact_loss(encoder, rows, functions), torch.stack(expected))


def test_a_model_is_the_same_whichever_others_it_is_trained_with():
    encoder = Encoder(4, 8)
    both = train_encoders(encoder, [boolean.parity, boolean.first], [3, 5], SHORT)
    alone = train_encoders(encoder, [boolean.first], [5], SHORT)
    assert torch.allclose(both.rows[1], alone.rows[0], atol=1e-4)
    assert torch.allclose(both.loss[:, 1], alone.loss[:, 0], atol=1e-4)


def test_a_step_is_torchs_adamw():
    encoder, settings = Encoder(3, 8), Settings(steps=3, cool_down=0.0, weight_decay=0.2)
    trained = train_encoders(encoder, [boolean.parity], [1], settings, keep_every=1)
    row = encoder.start([1]).requires_grad_()
    optimiser = torch.optim.AdamW([row], lr=1e-3, weight_decay=0.2)
    generator = torch.Generator().manual_seed(2**41 + 1)
    inputs = torch.randint(2, (3, 64, 3), generator=generator, dtype=torch.float32)
    for i in range(3):
        optimiser.zero_grad()
        (encoder(row, inputs[i].unsqueeze(0)) - boolean.parity(inputs[i])).square().mean().backward()
        optimiser.step()
        assert torch.allclose(trained.frames[i], row.detach(), atol=1e-6)


def test_a_pool_is_all_that_a_model_sees():
    seen = []

    def parity(x):
        seen.append(x)
        return boolean.parity(x)

    trained = train_encoders(Encoder(3, 8), [parity], [0], SHORT, pools=[cube(3)[:2]])
    assert trained.loss.shape == (60, 1)
    assert {tuple(row.tolist()) for x in seen for row in x.flatten(0, -2)} == {(0, 0, 0), (1, 0, 0)}


def test_bad_input_gets_one_sentence():
    with pytest.raises(ValueError, match="n must be a whole number of at least 1, got 0"):
        Encoder(0)
    for width in (7, 0, 8.0):
        with pytest.raises(ValueError, match="width must be an even whole number of at least 2, got"):
            Encoder(4, width)
    with pytest.raises(ValueError, match=r"weight_decay must be at least 0 and finite, got -0\.1"):
        replace(SHORT, weight_decay=-0.1)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
        replace(SHORT, steps=0)
    with pytest.raises(ValueError, match="learning_rate must be positive and finite, got 0"):
        replace(SHORT, learning_rate=0)
    with pytest.raises(ValueError, match=r"cool_down must be a share in 0\.\.1, got 2"):
        replace(SHORT, cool_down=2)
    with pytest.raises(ValueError, match="give one function per seed, got 1 and 2"):
        train_encoders(Encoder(3, 8), [boolean.parity], [0, 1], SHORT)
