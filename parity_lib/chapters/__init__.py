"""What the chapters find: experiments that return tidy frames, and the verdicts that follow from them."""
