"""How the book is made: the command, its parameters, the workflow, the checks and the reports."""
