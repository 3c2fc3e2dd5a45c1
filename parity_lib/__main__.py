"""``python -m parity_lib`` is ``parity``."""

from .build.cli import main

if __name__ == "__main__":
    main(prog_name="parity")
