"""How the chapters look: a frame in, a figure out."""
