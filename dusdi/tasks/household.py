"""Tasks in the household: look at things, test appliances, and run them as the screen on the wall says.

Each pays at the end of a window, ten seconds long: the share of it in which it was as wanted, 20 in an episode at most.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.household import APPLIANCES, IN_VIEW, LOCATION, OBJECTS, RUNNING, Household
from dusdi.tasks.base import WINDOW, HostTask

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


class Graded(NamedTuple):
    """What is wanted, and the share of the window in which it was so, so far, []."""

    wanted: Any
    share: jax.Array


class HouseholdTask(HostTask):
    """A task that pays at the end of a window. It says what is wanted at first and then, when it is so, and how to tell it."""

    def __init__(
        self,
        name: str,
        channel: str,
        causal: list[int],
        variables: list[str],
        options: dict[str, Any],
    ):
        super().__init__(
            name, Household(**options), [channel], np.array([causal]), [*variables, "share so far"]
        )

    @abc.abstractmethod
    def first(self, key: jax.Array, world: jax.Array) -> Any:
        """What is wanted when an episode begins."""

    @abc.abstractmethod
    def look(self, wanted: Any, world: jax.Array) -> tuple[Any, jax.Array]:
        """What is wanted after a step, and whether it is so, []."""

    @abc.abstractmethod
    def next(self, wanted: Any, key: jax.Array) -> Any:
        """What is wanted in the next window."""

    @abc.abstractmethod
    def name(self, wanted: Any) -> jax.Array:
        """What is wanted, as the policy sees it, [V]."""

    def begin(self, key, world):
        return Graded(self.first(key, world), jnp.float32(0)), world

    def judge(self, variables, world, last):
        wanted, is_so = self.look(variables.wanted, world)
        share = variables.share + is_so / WINDOW
        return Graded(wanted, jnp.where(last, 0.0, share)), world, jnp.where(last, share, 0.0)[None]

    def turn(self, variables, key):
        return variables._replace(wanted=self.next(variables.wanted, key))

    def tell(self, variables):
        return jnp.append(self.name(variables.wanted), variables.share)

    def told(self, observation):
        return super().told(observation)[:, :-1]


class LookAround(HouseholdTask):
    """Look at the objects in the room one after the other: have the named one in view."""

    def __init__(self, **options):
        names = [f"look at the {thing.name}" for thing in OBJECTS]
        super().__init__("look-around", "in view", [0, 0, 1], names, options)
        self.learn_for(128_000)  # one component is enough, and soon chosen

    def first(self, key, world):
        return jax.random.randint(key, (), 0, len(OBJECTS))

    def look(self, wanted, world):
        return wanted, world[IN_VIEW][wanted] > 0

    def next(self, wanted, key):
        return draw_other(key, wanted, len(OBJECTS))

    def name(self, wanted):
        return jax.nn.one_hot(wanted, len(OBJECTS))

    def words(self, variables):
        return f"look at the {OBJECTS[int(variables.wanted)].name}"

    def best(self, observation):
        target = self.told(observation).argmax(1)
        return np.stack(
            [np.full_like(target, MIDDLE), np.full_like(target, NOTHING), target], axis=1
        )


class Inspect(HouseholdTask):
    """Test the appliances one after the other: run the named one and be near it."""

    def __init__(self, **options):
        super().__init__(
            "inspect", "tested", [1, 1, 0], [f"test the {name}" for name in NAMES], options
        )

    def first(self, key, world):
        return jax.random.randint(key, (), 0, len(APPLIANCES))

    def look(self, wanted, world):
        near = jnp.linalg.norm(world[LOCATION][:2] - jnp.asarray(WHERE)[wanted]) < NEAR
        return wanted, near & (world[RUNNING][wanted] > 0)

    def next(self, wanted, key):
        return draw_other(key, wanted, len(APPLIANCES))

    def name(self, wanted):
        return jax.nn.one_hot(wanted, len(APPLIANCES))

    def words(self, variables):
        return f"test the {NAMES[int(variables.wanted)]}"

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


class Housekeep(HouseholdTask):
    """Run the appliance that the screen names and no other, or none.

    What the screen says is known from when it is looked at until it changes, every forty seconds.
    """

    def __init__(self, **options):
        names = [*(f"run the {name}" for name in NAMES), "run nothing"]
        super().__init__("housekeep", "in order", [0, 1, 1], names, options)

    def first(self, key, world):
        order, in_view = (
            jax.random.randint(key, (), 0, len(APPLIANCES) + 1),
            world[IN_VIEW][SCREEN] > 0,
        )
        return Orders(order, jnp.int32(0), in_view, in_view)

    def look(self, wanted, world):
        in_view, right = world[IN_VIEW][SCREEN] > 0, jnp.arange(len(APPLIANCES)) == wanted.order
        is_so = jnp.all((world[RUNNING] > 0) == right)
        return wanted._replace(read=wanted.read | in_view, in_view=in_view), is_so

    def next(self, wanted, key):
        waited = wanted._replace(age=wanted.age + 1)
        order = draw_other(key, wanted.order, len(APPLIANCES) + 1)
        fresh = Orders(order, jnp.int32(0), wanted.in_view, wanted.in_view)
        return jax.tree.map(
            lambda new, old: jnp.where(waited.age >= ORDER_WINDOWS, new, old), fresh, waited
        )

    def name(self, wanted):
        return jax.nn.one_hot(wanted.order, len(APPLIANCES) + 1) * wanted.read

    def words(self, variables):
        order = int(variables.wanted.order)
        named = f"run the {NAMES[order]}" if order < len(NAMES) else "run nothing"
        return f"{named} ({'read' if variables.wanted.read else 'not read'})"

    def best(self, observation):
        told = self.told(observation)
        appliance = np.where(told.any(1), told.argmax(1), NOTHING)
        return np.stack(
            [np.full_like(appliance, MIDDLE), appliance, np.full_like(appliance, SCREEN)], axis=1
        )
