"""Parts for egt that live in a package of their own."""
