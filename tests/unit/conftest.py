import matplotlib
import pytest
import torch

matplotlib.use("agg")
torch.set_num_threads(1)  # small tensors: threads only get in each other's way


@pytest.fixture
def book_style():
    """Figures in the style of the book, closed after the test."""
    from parity_lib import plots

    plots.use_style()
    yield
    plots.plt.close("all")
