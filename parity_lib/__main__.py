from .build.cli import main

main(prog_name="parity")
