"""Language models that generate: tokens a second, against others and against reading the weights once."""
