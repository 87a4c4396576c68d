"""Learners of policies."""
