"""Makes the pictures of the worlds with physics: `python docs/images/make.py`."""

from pathlib import Path

import numpy as np
from PIL import Image

import dusdi

FOLDER = Path(__file__).parent
SKILL = np.array([[2, 3, 1]])  # of the household's scripted expert
STRIDE = np.array([[-0.02, 0.0, 0.1, 0.5, -0.4, 0.1, -0.3, -0.3, 0.2]])  # joints of the walker


def main() -> None:
    for view in ("room", "map"):
        world = dusdi.make("household", view=view)
        homes = world.vector(1)
        homes.reset(5)
        assert world.expert is not None
        for _ in range(45):
            homes.step(world.expert(homes.state(), np.array([[2, 3, 1]])))
        Image.fromarray(homes.render()).save(FOLDER / f"household-{view}.png")
        homes.close()
    walker = dusdi.make("walker").vector(1)
    walker.reset(0)
    walker._simulation.reset(np.ones(1, bool), STRIDE)  # type: ignore[attr-defined]
    Image.fromarray(walker.render()).save(FOLDER / "walker.png")
    walker.close()


if __name__ == "__main__":
    main()
