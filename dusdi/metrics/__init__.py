"""Measures of learned skills and of returns."""
