"""Tasks in the household: rewards by hand, what is observed, and that the expert solves them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from wrapped_worlds import roll_out_on_host

from dusdi.envs.household import HouseholdState
from dusdi.envs.household_model import APPLIANCES, OBJECTS
from dusdi.tasks import make_task
from dusdi.tasks.base import TaskState
from dusdi.tasks.household import ORDER_WINDOWS, SCREEN, Instruction, WindowVariables

NAMES = [thing.name for thing in APPLIANCES]

BARS = {"look-around": 19, "inspect": 15, "housekeep": 18}


@pytest.mark.parametrize("name", BARS)
def test_the_scripted_expert_solves_the_task_and_random_actions_do_not(name):
    task = make_task(f"household/{name}")
    rng = np.random.default_rng(0)
    _, solved = roll_out_on_host(task, task.expert_action, steps=1000)
    assert solved.sum((0, 2)).mean() >= BARS[name]
    _, random = roll_out_on_host(
        task, lambda state: rng.uniform(-1, 1, (3, 11)), steps=1000, num_envs=3
    )
    assert random.sum((0, 2)).mean() < 0.3 * BARS[name]


def household_state(*, at=(0.0, 0.0), runs=(), sees=()):
    """The state of a robot that stands somewhere, with what runs and what is in view."""
    rest = dict.fromkeys(("heading", "opening", "remote", "pointing", "looking"), jnp.zeros(()))
    return HouseholdState(
        position=jnp.asarray(at),
        running=jnp.array([name in runs for name in NAMES]),
        in_view=jnp.array([index in sees for index in range(len(OBJECTS))]),
        **rest,
    )


def instruction(appliance, read=False, windows=0, in_view=False):
    return Instruction(
        jnp.int32(appliance), jnp.int32(windows), jnp.bool_(read), jnp.bool_(in_view)
    )


def test_rewards_of_the_tasks_by_hand():
    look, inspect, keep = (make_task(f"household/{name}") for name in BARS)

    def fulfilled(task, goal, **state):
        """Whether two steps in a state, the second of which ends the window, fulfil the goal.

        Ten steps of the window fulfilled it before.
        """
        world = household_state(**state)
        start = WindowVariables(goal, jnp.float32(0.2))
        variables, reward = task.score(start, world, jnp.bool_(False))
        assert reward[0] == 0  # before the end of the window
        variables, reward = task.score(variables, world, jnp.bool_(True))
        assert variables.share == 0
        assert float(reward[0]) == pytest.approx(0.2) or float(reward[0]) == pytest.approx(0.24)
        return float(reward[0]) > 0.22

    assert [fulfilled(look, 2, sees=[i]) for i in range(3)] == [False, False, True]
    assert fulfilled(inspect, 0, at=(-1.4, 0.2), runs=["lamp"])
    assert not fulfilled(inspect, 0, at=(-1.4, 0.0), runs=["lamp"])  # too far
    assert not fulfilled(inspect, 0, at=(-1.4, 0.2), runs=["fan"])
    fan = instruction(1)
    nothing = instruction(4)
    assert fulfilled(keep, fan, runs=["fan"]) and not fulfilled(keep, fan, runs=["fan", "lamp"])
    assert fulfilled(keep, nothing) and not fulfilled(keep, nothing, runs=["lamp"])


def test_an_instruction_is_observed_once_the_screen_is_read():
    task = make_task("household/housekeep")
    unread = WindowVariables(instruction(2), jnp.float32(0.5))
    np.testing.assert_array_equal(task.observe_variables(unread), [0, 0, 0, 0, 0, 0.5])
    np.testing.assert_array_equal(task.expert_skill(unread, None), [4, 4, SCREEN])
    read, _ = task.score(unread, household_state(sees=[SCREEN]), False)
    read, _ = task.score(read, household_state(), False)  # it is remembered
    np.testing.assert_array_equal(task.observe_variables(read)[:-1], np.eye(5)[2])
    np.testing.assert_array_equal(task.expert_skill(read, None), [4, 2, SCREEN])
    assert task.label(read) == "run the television (read)"


@pytest.mark.parametrize("looks", [True, False])
def test_a_new_instruction_is_read_at_once_if_the_screen_is_in_view(looks):
    task = make_task("household/housekeep")
    world = household_state(sees=[SCREEN] if looks else [])
    old = WindowVariables(instruction(2, read=True, windows=ORDER_WINDOWS - 1), jnp.float32(0))
    state = TaskState(household_state(), old, jnp.int32(199), jnp.zeros(1))
    goal = task.advance(state, world, jax.random.PRNGKey(0)).variables.goal
    assert int(goal.appliance) != 2 and int(goal.windows) == 0 and bool(goal.read) == looks
    start = task.reset_variables(jax.random.PRNGKey(0), world)
    assert bool(start.goal.read) == looks
