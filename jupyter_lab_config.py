# `jupyter lab` opens the playground, in Binder and in .venv: both copy this file to where Jupyter looks for it.
c.LabApp.default_url = "/lab/tree/notebooks/playground.ipynb"
