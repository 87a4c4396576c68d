"""Benchmarks of speed and memory, as ratios that are measured in one run: `python -m bench`.

The sides of a ratio are timed in turns, and the median over the rounds counts, so that a noisy
machine affects them alike. Each benchmark is one function in `bench.__main__.BENCHMARKS`.
"""
