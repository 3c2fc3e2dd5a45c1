"""How the book is made: the command, its parameters, the workflow, the checks and the reports."""

PUBLISHED = "book"  # the profile of the book as it is published: every notebook at its own default parameters
