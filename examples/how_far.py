"""How far skills get: what a factor changes by while a skill stays in force.

dusdi pretrain walker --method metra --out runs/walker-metra
python examples/how_far.py runs/walker-metra "body position" --steps 200
"""

from __future__ import annotations

import argparse

import numpy as np

import dusdi


def distances(
    skills: dusdi.Skills, factor: str, *, steps: int, count: int = 100, seed: int = 0
) -> np.ndarray:
    """How far random skills take the entries of a factor, [count, entries]."""
    spec = skills.spec
    entries = {found.name: list(found.indices) for found in spec.factors}[factor]
    chosen = skills.sample_skills(count, seed)
    env = dusdi.make(spec.name, **spec.options).vector(count)
    first = observation = env.reset(seed=seed)
    for _ in range(steps):
        observation, *_ = env.step(skills.act(observation, chosen))
    env.close()
    return (observation - first)[:, entries]


def main(arguments: list[str] | None = None) -> np.ndarray:
    parser = argparse.ArgumentParser(description="How far do skills get?")
    parser.add_argument("run", help="folder of a run of skill discovery")
    parser.add_argument("factor", help="name of a factor")
    parser.add_argument("--steps", type=int, default=200, help="steps that a skill stays in force")
    given = parser.parse_args(arguments)
    found = distances(dusdi.load(given.run), given.factor, steps=given.steps)
    for number, changes in enumerate(found.T):
        low, middle, high = np.quantile(changes, [0.05, 0.5, 0.95])
        print(
            f"{given.factor} {number}: mean distance {np.abs(changes).mean():.2f}; "
            f"5 % of skills below {low:.2f}, half below {middle:.2f}, 95 % below {high:.2f}"
        )
    return found


if __name__ == "__main__":
    main()
