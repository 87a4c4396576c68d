"""Tasks in the household: look at things, test appliances, run what the screen on the wall says.

Each gives its reward at the end of a window of ten seconds: the share of it in which its goal was
fulfilled, so at most 20 in an episode.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dusdi.envs.base import World
from dusdi.envs.household import Household, HouseholdState
from dusdi.envs.household_model import APPLIANCES, OBJECTS
from dusdi.tasks.base import HostTask, draw_other, world_or_default

NEAR = 2.2  # metres from an appliance at which a test counts
ORDER_WINDOWS = 4  # windows, of 10 s each, between two instructions on the screen
SCREEN = [thing.name for thing in OBJECTS].index("screen")
PLACES = np.array([thing.place[:2] for thing in APPLIANCES], np.float32)
NAMES = [thing.name for thing in APPLIANCES]

# Skills of the world's expert.
MIDDLE = 4  # stand in the middle
NO_APPLIANCE = 4  # run none
STAND_BY = np.array([2, 2, 3, 3])  # where to stand to test each appliance


class WindowVariables(NamedTuple):
    """The goal of a window, and the share of the window in which it was fulfilled so far, []."""

    goal: Any
    share: jax.Array


class HouseholdTask(HostTask):
    """A task that gives its reward at the end of a window. Subclasses define what the goals are."""

    def __init__(
        self,
        name: str,
        world: World | None,
        *,
        channel: str,
        causal: list[int],
        variables: list[str],
    ):
        super().__init__(
            name,
            world_or_default(world, Household),
            channels=[channel],
            causal=np.array([causal]),
            variables=[*variables, "share so far"],
        )

    @abc.abstractmethod
    def first_goal(self, key: jax.Array, world: HouseholdState) -> Any:
        """The goal when an episode begins."""

    @abc.abstractmethod
    def check(self, goal: Any, world: HouseholdState) -> tuple[Any, jax.Array]:
        """The goal after a step, and whether it is fulfilled, bool []."""

    @abc.abstractmethod
    def next_goal(self, goal: Any, key: jax.Array) -> Any:
        """The goal of the next window."""

    @abc.abstractmethod
    def observe_goal(self, goal: Any) -> jax.Array:
        """The goal as the policy observes it, [V]."""

    def reset_variables(self, key, world):
        return WindowVariables(self.first_goal(key, world), jnp.float32(0))

    def score(self, variables, world, window_ends):
        goal, fulfilled = self.check(variables.goal, world)
        share = variables.share + fulfilled / self.window
        reward = jnp.where(window_ends, share, 0.0)
        return WindowVariables(goal, jnp.where(window_ends, 0.0, share)), reward[None]

    def resample(self, variables, key):
        return variables._replace(goal=self.next_goal(variables.goal, key))

    def observe_variables(self, variables):
        return jnp.append(self.observe_goal(variables.goal), variables.share)


class LookAround(HouseholdTask):
    """Look at the objects in the room one after the other: have the named one in view."""

    def __init__(self, world: World | None = None):
        super().__init__(
            "look-around",
            world,
            channel="in view",
            causal=[0, 0, 1],
            variables=[f"look at the {thing.name}" for thing in OBJECTS],
        )

    def first_goal(self, key, world):
        return jax.random.randint(key, (), 0, len(OBJECTS))

    def check(self, goal, world):
        return goal, world.in_view[goal]

    def next_goal(self, goal, key):
        return draw_other(key, goal, len(OBJECTS))

    def observe_goal(self, goal):
        return jax.nn.one_hot(goal, len(OBJECTS))

    def label(self, variables):
        return f"look at the {OBJECTS[int(variables.goal)].name}"

    def expert_skill(self, variables, world):
        return jnp.stack([MIDDLE, NO_APPLIANCE, variables.goal])


class Inspect(HouseholdTask):
    """Test the appliances one after the other: run the named one and be near it."""

    def __init__(self, world: World | None = None):
        super().__init__(
            "inspect",
            world,
            channel="tested",
            causal=[1, 1, 0],
            variables=[f"test the {name}" for name in NAMES],
        )

    def first_goal(self, key, world):
        return jax.random.randint(key, (), 0, len(APPLIANCES))

    def check(self, goal, world):
        near = jnp.linalg.norm(world.position - jnp.asarray(PLACES)[goal]) < NEAR
        return goal, near & world.running[goal]

    def next_goal(self, goal, key):
        return draw_other(key, goal, len(APPLIANCES))

    def observe_goal(self, goal):
        return jax.nn.one_hot(goal, len(APPLIANCES))

    def label(self, variables):
        return f"test the {NAMES[int(variables.goal)]}"

    def expert_skill(self, variables, world):
        return jnp.stack([jnp.asarray(STAND_BY)[variables.goal], variables.goal, SCREEN])


class Instruction(NamedTuple):
    """What the screen says.

    Attributes:
      appliance: the one that is to run, []; the number of appliances if none is.
      windows: for how many windows the screen has said so, [].
      read: whether the robot has looked at the screen since it says so, bool [].
      in_view: whether it looks at the screen now, bool [].
    """

    appliance: jax.Array
    windows: jax.Array
    read: jax.Array
    in_view: jax.Array


class Housekeep(HouseholdTask):
    """Run the appliance that the screen names and no other, or none.

    The instruction is observed from when the screen is looked at until it changes, every forty
    seconds.
    """

    def __init__(self, world: World | None = None):
        super().__init__(
            "housekeep",
            world,
            channel="as instructed",
            causal=[0, 1, 1],
            variables=[*(f"run the {name}" for name in NAMES), "run nothing"],
        )

    def first_goal(self, key, world):
        appliance = jax.random.randint(key, (), 0, len(APPLIANCES) + 1)
        in_view = world.in_view[SCREEN]
        return Instruction(appliance, jnp.int32(0), in_view, in_view)

    def check(self, goal, world):
        in_view = world.in_view[SCREEN]
        wanted = jnp.arange(len(APPLIANCES)) == goal.appliance
        fulfilled = jnp.all(world.running == wanted)
        return goal._replace(read=goal.read | in_view, in_view=in_view), fulfilled

    def next_goal(self, goal, key):
        same = goal._replace(windows=goal.windows + 1)
        appliance = draw_other(key, goal.appliance, len(APPLIANCES) + 1)
        fresh = Instruction(appliance, jnp.int32(0), goal.in_view, goal.in_view)
        expired = same.windows >= ORDER_WINDOWS
        return jax.tree.map(lambda new, old: jnp.where(expired, new, old), fresh, same)

    def observe_goal(self, goal):
        return jax.nn.one_hot(goal.appliance, len(APPLIANCES) + 1) * goal.read

    def label(self, variables):
        appliance = int(variables.goal.appliance)
        wanted = f"run the {NAMES[appliance]}" if appliance < len(NAMES) else "run nothing"
        return f"{wanted} ({'read' if variables.goal.read else 'not read'})"

    def expert_skill(self, variables, world):
        goal = variables.goal
        appliance = jnp.where(goal.read, goal.appliance, NO_APPLIANCE)
        return jnp.stack([MIDDLE, appliance, SCREEN])
