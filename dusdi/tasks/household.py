"""Tasks in the household: look at things, test appliances, and run them as the screen on the wall says.

Each pays at the end of a window, ten seconds long: 1 if what was wanted is so by then, 20 in an episode at most.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.household import APPLIANCES, IN_VIEW, LOCATION, OBJECTS, RUNNING, Household
from dusdi.tasks.base import HostTask

NEAR = 2.2  # metres from an appliance at which a test counts
ORDER_WINDOWS = 4  # windows, of 10 s each, between two instructions on the screen
SCREEN = [thing.name for thing in OBJECTS].index("screen")
MIDDLE, NOTHING = 4, 4  # of the oracle's skills: stand in the middle, run no appliance
STAND_BY = np.array([2, 2, 3, 3])  # where the oracle stands to test each appliance
WHERE = np.array([thing.place[:2] for thing in APPLIANCES], np.float32)

NAMES = [thing.name for thing in APPLIANCES]


def draw_other(key: jax.Array, previous: jax.Array, count: int) -> jax.Array:
    """One of `count` numbers, but not the previous one."""
    return (previous + jax.random.randint(key, (), 1, count)) % count


def pay(done: jax.Array) -> jax.Array:
    """The reward [1] for what was wanted."""
    return done.astype(jnp.float32)[None]


class LookAround(HostTask):
    """Look at the objects in the room one after the other: 1 if the named one is in view."""

    def __init__(self, **options):
        names = [f"look at the {thing.name}" for thing in OBJECTS]
        super().__init__("look-around", Household(**options), ["in view"], np.array([[0, 0, 1]]), names)

    def begin(self, key, world):
        return jax.random.randint(key, (), 0, len(OBJECTS)), world

    def judge(self, variables, world, last):
        return variables, world, pay(last & (world[IN_VIEW][variables] > 0))

    def turn(self, variables, key):
        return draw_other(key, variables, len(OBJECTS))

    def tell(self, variables):
        return jax.nn.one_hot(variables, len(OBJECTS))

    def words(self, variables):
        return f"look at the {OBJECTS[int(variables)].name}"

    def best(self, observation):
        target = self.told(observation).argmax(1)
        return np.stack([np.full_like(target, MIDDLE), np.full_like(target, NOTHING), target], axis=1)


class Inspect(HostTask):
    """Test the appliances one after the other: 1 if the named one runs and the robot is near it."""

    def __init__(self, **options):
        names = [f"test the {name}" for name in NAMES]
        super().__init__("inspect", Household(**options), ["tested"], np.array([[1, 1, 0]]), names)

    def begin(self, key, world):
        return jax.random.randint(key, (), 0, len(APPLIANCES)), world

    def judge(self, variables, world, last):
        near = jnp.linalg.norm(world[LOCATION][:2] - jnp.asarray(WHERE)[variables]) < NEAR
        return variables, world, pay(last & near & (world[RUNNING][variables] > 0))

    def turn(self, variables, key):
        return draw_other(key, variables, len(APPLIANCES))

    def tell(self, variables):
        return jax.nn.one_hot(variables, len(APPLIANCES))

    def words(self, variables):
        return f"test the {NAMES[int(variables)]}"

    def best(self, observation):
        target = self.told(observation).argmax(1)
        return np.stack([STAND_BY[target], target, np.full_like(target, SCREEN)], axis=1)


class Orders(NamedTuple):
    """What the screen says: the appliance that is to run (the last: none), for how many windows it has said so, whether it was
    read, and whether the screen is in view now."""

    order: jax.Array
    age: jax.Array
    read: jax.Array
    in_view: jax.Array


class Housekeep(HostTask):
    """Run the appliance that the screen names and no other, or none: 1 if it is so.

    What the screen says is known from when it is looked at until it changes, every forty seconds.
    """

    def __init__(self, **options):
        names = [*(f"run the {name}" for name in NAMES), "run nothing"]
        super().__init__("housekeep", Household(**options), ["in order"], np.array([[0, 1, 1]]), names)

    def begin(self, key, world):
        order, in_view = jax.random.randint(key, (), 0, len(APPLIANCES) + 1), world[IN_VIEW][SCREEN] > 0
        return Orders(order, jnp.int32(0), in_view, in_view), world

    def judge(self, variables, world, last):
        wanted = jnp.arange(len(APPLIANCES)) == variables.order
        right = jnp.all((world[RUNNING] > 0) == wanted)
        in_view = world[IN_VIEW][SCREEN] > 0
        return variables._replace(read=variables.read | in_view, in_view=in_view), world, pay(last & right)

    def turn(self, variables, key):
        waited = variables._replace(age=variables.age + 1)
        order = draw_other(key, variables.order, len(APPLIANCES) + 1)
        fresh = Orders(order, jnp.int32(0), variables.in_view, variables.in_view)
        return jax.tree.map(lambda new, old: jnp.where(waited.age >= ORDER_WINDOWS, new, old), fresh, waited)

    def tell(self, variables):
        return jax.nn.one_hot(variables.order, len(APPLIANCES) + 1) * variables.read

    def words(self, variables):
        order = int(variables.order)
        named = f"run the {NAMES[order]}" if order < len(NAMES) else "run nothing"
        return f"{named} ({'read' if variables.read else 'not read'})"

    def best(self, observation):
        told = self.told(observation)
        appliance = np.where(told.any(1), told.argmax(1), NOTHING)
        return np.stack([np.full_like(appliance, MIDDLE), appliance, np.full_like(appliance, SCREEN)], axis=1)
