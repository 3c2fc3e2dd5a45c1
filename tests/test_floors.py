"""The house itself: imports go down only, the core stays small and hears of nobody."""

import ast
import subprocess
import sys
from pathlib import Path

from checkouts import ROOT

CORE = sorted((ROOT / "parity_lib").glob("*.py"))
KERNELS = sorted((ROOT / "parity_lib" / "kernels").glob("*.py"))


def test_imports_go_down_only():
    """The contract stands in pyproject.toml; `make lint` holds it too."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True)
    assert "1 kept, 0 broken" in done.stdout, done.stdout + done.stderr


def test_the_core_does_not_grow():
    """What one reads to know the model; apart from it, the fused loops and the inputs that are drawn for them."""
    core, fast = (sum(len(path.read_text().splitlines()) for path in paths) for paths in (CORE, KERNELS))
    assert core <= 1500 and fast <= 565


def test_the_core_reads_no_environment_variable():
    for path in (*CORE, *KERNELS):
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        modules = {name for node in ast.walk(ast.parse(path.read_text())) for name in imported(node)}
        assert not names & {"environ", "getenv", "environb"} and "os" not in modules, path.name


def test_only_the_seam_asks_for_numba():
    """`kernels.choose` decides between a loop and its reference; nobody else looks."""
    seam = ROOT / "parity_lib" / "kernels" / "__init__.py"
    for path in sorted((ROOT / "parity_lib").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        named = {node.id for node in nodes if isinstance(node, ast.Name)}
        named |= {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
        named |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert path == seam or "numba" not in named, path.name


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_every_public_name_is_there():
    import parity_lib

    assert all(hasattr(parity_lib, name) for name in parity_lib.__all__)
    assert Path(parity_lib.__file__).parent == ROOT / "parity_lib"
