"""Skills from pictures of one's own: two discs that are pushed around, found by their colours.

python examples/own_pictures.py

The same on the command line, with this file's functions:

PICTURES=examples/own_pictures.py
dusdi pretrain $PICTURES:TwoDiscs --encoder $PICTURES:centroids --factor red=0:2 --factor blue=2:4
"""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np

import dusdi

SIDE = 32  # pixels
RADIUS = 3.0
MIDDLES = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1  # of rows and columns, from -1 to 1
COLOURS = [0, 2]  # channels: the first disc is red, the second blue


class TwoDiscs(gymnasium.Env):
    """Two discs, each pushed in x and y; only a picture of them is seen."""

    observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = gymnasium.spaces.Box(-1, 1, (4,))
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.places = self.np_random.uniform(-0.8, 0.8, (2, 2))
        return self.render(), {}

    def step(self, action):
        self.places = np.clip(self.places + 0.15 * action.reshape(2, 2), -0.8, 0.8)
        return self.render(), 0.0, False, False, {}

    def render(self):
        """Discs with soft edges on black, uint8 [rows, columns, 3]."""
        picture = np.zeros((SIDE, SIDE, 3), np.uint8)
        for (x, y), channel in zip(self.places, COLOURS, strict=True):
            distance = np.hypot(MIDDLES[None, :] - x, MIDDLES[:, None] - y) * SIDE / 2
            picture[..., channel] = 255 * np.clip(RADIUS + 0.5 - distance, 0, 1)
        return picture


def centroids(pictures: np.ndarray) -> np.ndarray:
    """The middle x and y of what is red, then of what is blue: [n, 4] of uint8 [n, rows, …, 3]."""
    amounts = pictures[..., COLOURS].astype(np.float32)
    amounts /= amounts.sum((1, 2), keepdims=True)
    x = np.einsum("nrcd,c->nd", amounts, MIDDLES)
    y = np.einsum("nrcd,r->nd", amounts, MIDDLES)
    return np.stack([x, y], axis=2).reshape(len(pictures), 4)


def main(arguments: list[str] | None = None) -> dusdi.Skills:
    parser = argparse.ArgumentParser(description="Learns skills from pictures of two discs.")
    parser.add_argument("--steps", type=int, default=12_000, help="environment steps")
    given = parser.parse_args(arguments)
    factors = {"red": "0:2", "blue": "2:4"}
    world = dusdi.from_gymnasium(TwoDiscs, factors, encoder=centroids)
    skills = dusdi.pretrain(
        world,
        steps=given.steps,
        num_envs=16,
        steps_per_update=16,
        random_steps=1_600,
        component="categorical:4",
        skill_length=20,
    )
    print(dusdi.evaluate(skills, world, steps=8_000).table())
    return skills


if __name__ == "__main__":
    main()
