"""Household: Fetch in a room that it can't leave, what it points at and sees, and tasks that can be solved."""

import importlib.util

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dusdi
from dusdi.envs import household
from dusdi.envs.household import (
    AFTERGLOW,
    APPLIANCES,
    FURNITURE,
    IN_VIEW,
    LOCATION,
    OBJECTS,
    OPENING,
    PLACES,
    PRESSED,
    ROOM,
    RUNNING,
    SUBSTEPS,
    WALL_HALF,
    Household,
)  # fmt: skip
from dusdi.envs.physics import Simulation, load_mujoco
from dusdi.errors import UsageError, WorldError
from dusdi.evaluation import ceiling_returns, returns
from dusdi.tasks import make_task
from dusdi.tasks.base import TaskState
from dusdi.tasks.household import ORDER_WINDOWS, SCREEN, Graded, Orders

mujoco = load_mujoco("household")
WORLD = Household(view="map")
NAMES = [thing.name for thing in APPLIANCES]


def test_it_is_described_as_in_the_paper():
    sizes = {factor.name: (len(factor.indices), factor.controlled) for factor in WORLD.spec.factors}
    assert sizes == {
        "agent location": (3, True),
        "electric appliances": (4, True),
        "objects in view": (3, True),
        "proprioception": (32, False),
    }
    assert (WORLD.spec.observation_size, WORLD.spec.action_size, WORLD.model.nu) == (
        42,
        11,
        13,
    )  # wheels: 3, fingers: 2


def test_sensors_are_those_of_the_state_it_is_in():
    """Not of the step before, as MuJoCo leaves them."""
    model, rng = WORLD.model, np.random.default_rng(1)
    simulation, data = Simulation(model, 5, SUBSTEPS), mujoco.MjData(model)
    start = rng.uniform(-0.3, 0.3, (5, model.nq))

    def check():
        for i in range(5):
            data.qpos[:], data.qvel[:] = simulation.qpos[i], simulation.qvel[i]
            mujoco.mj_forward(model, data)
            np.testing.assert_allclose(simulation.sensors[i], data.sensordata, atol=1e-12)

    simulation.place(np.ones(5, bool), start)
    check()
    for _ in range(10):
        simulation.step(rng.uniform(-1, 1, (5, model.nu)))
        check()
    simulation.place(np.arange(5) % 2 == 0, start)
    check()


def test_the_camera_looks_where_the_eye_does():
    data = mujoco.MjData(WORLD.model)
    mujoco.mj_forward(WORLD.model, data)
    camera, eye = data.camera("head_camera_rgb"), data.site("eye")
    np.testing.assert_allclose(
        -camera.xmat.reshape(3, 3)[:, 2], eye.xmat.reshape(3, 3)[:, 0], atol=1e-3
    )


def test_furniture_hides_what_mujocos_rays_say_it_hides():
    rng = np.random.default_rng(0)
    origin = rng.uniform((-2.4, -2.4, 0.05), (2.4, 2.4, 1.5), (200, 3))
    things = rng.uniform((-2.4, -2.4, 0.05), (2.4, 2.4, 0.4), (20, 3))
    middle, half = (
        np.array([piece.middle for piece in FURNITURE]),
        np.array([piece.half for piece in FURNITURE]),
    )
    inside = (np.abs(origin[:, None] - middle) < half).all(-1).any(-1)
    data, only = mujoco.MjData(WORLD.model), np.array([0, 1, 0, 0, 0, 0], np.uint8)
    mujoco.mj_forward(WORLD.model, data)
    hidden, geom = household.is_hidden(origin, things), np.zeros(1, np.int32)
    for i in np.flatnonzero(~inside):
        for j, thing in enumerate(things):
            share = mujoco.mj_ray(
                WORLD.model, data, origin[i], thing - origin[i], only, 1, -1, geom
            )
            assert hidden[i, j] == (0 <= share < 1), (origin[i], thing)
    assert 0.05 < hidden.mean() < 0.9


def test_random_actions_for_twenty_thousand_steps_break_nothing_and_leave_nothing_outside():
    homes, rng = WORLD.vector(40), np.random.default_rng(0)
    homes.reset(0)
    simulation, data = homes._simulation, mujoco.MjData(WORLD.model)
    fingers = [WORLD.model.joint(f"robot0:{side}_gripper_finger_joint") for side in "rl"]
    for t in range(500):
        if t % 10 == 0:
            action = rng.uniform(-1, 1, (40, 11)) if t % 50 else rng.choice([-1.0, 1.0], (40, 11))
        observation, _, _ = homes.step(action)
        assert np.isfinite(observation).all()
        for qpos in simulation.qpos:
            data.qpos[:] = qpos
            mujoco.mj_kinematics(WORLD.model, data)
            # the fingers of a swung arm press into a wall for a moment
            assert np.abs(data.xpos[:, :2]).max() < ROOM + WALL_HALF
        assert np.abs(simulation.qvel).max() < 30
        for finger in fingers:  # that slip when the arm swings would press or not by chance; the button is at 35 of 50 mm
            closed = simulation.qpos[:, finger.qposadr[0]]
            assert (closed > finger.range[0] - 0.01).all() and (
                closed < finger.range[1] + 0.01
            ).all()
    # MuJoCo's warnings would have been errors: see the next test


def test_numbers_that_get_out_of_hand_are_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log file where it is
    homes = WORLD.vector(2)
    homes.reset(0)
    homes._simulation.qvel[1, 0] = 1e12
    with pytest.raises(WorldError, match="physics of copy 1 got out of hand"):
        homes.step(np.zeros((2, 11)))


def test_wheels_do_not_slip():
    homes = WORLD.vector(1)
    homes.reset(0)
    homes._simulation.qpos[0, :3] = 0.0, 0.0, 0.0
    round_and_round = np.zeros((1, 11))
    round_and_round[0, :2] = 0.5, 1.0
    for _ in range(20):
        observation, _, _ = homes.step(round_and_round)
        assert abs(observation[0, 13]) < 0.1
    assert observation[0, 12] > 0.5  # ahead


def test_an_episode_starts_with_nothing_touching_anything():
    homes, data = WORLD.vector(300), mujoco.MjData(WORLD.model)
    homes.reset(0)
    for qpos in homes._simulation.qpos:
        data.qpos[:] = qpos
        mujoco.mj_forward(WORLD.model, data)
        assert data.ncon == 0


@pytest.mark.parametrize("heading", [0.0, np.pi / 2, np.pi, -np.pi / 2])
def test_walls_and_furniture_stop_it(heading):
    homes = WORLD.vector(1)
    homes.reset(0)
    homes._simulation.qpos[0, :3] = 0.0, 0.0, heading
    ahead = np.zeros((1, 11))
    ahead[0, 0] = 1.0
    for _ in range(60):
        observation, _, _ = homes.step(ahead)
    x, y, _ = observation[0, LOCATION]
    assert 0.8 < np.hypot(x, y) < ROOM - 0.25
    if heading == -np.pi / 2:
        assert y > -2.1 + 0.38 + 0.2  # not into the sofa


def test_the_remote_control_runs_what_it_points_at_until_it_lets_go():
    homes = WORLD.vector(len(APPLIANCES))
    observation = homes.reset(0)
    homes._simulation.qpos[:, :3] = 0.0, 0.0, np.pi / 2
    skill = np.stack([np.full(4, 4), np.arange(4), np.full(4, 3)], axis=1)
    for _ in range(15):
        observation, _, _ = homes.step(WORLD.oracle(observation, skill))
    np.testing.assert_array_equal(observation[:, RUNNING], np.eye(4))
    skill[:, 1] = 4
    silent = 0
    for _ in range(20):
        observation, _, _ = homes.step(WORLD.oracle(observation, skill))
        silent += observation[0, OPENING] >= PRESSED
        assert observation[0, RUNNING][0] == (silent <= AFTERGLOW)
    np.testing.assert_array_equal(observation[:, RUNNING], 0)


def test_signals_need_aim_a_pressed_button_and_a_free_way():
    lamp = np.array(APPLIANCES[0].place)
    before = lamp + np.array([0, -1.5, 0.0])
    origin, yes = np.stack([before] * 4), np.ones(4, bool)
    aim = np.array(
        [(0, 1, 0), (-np.sin(0.49), np.cos(0.49), 0), (-np.sin(0.51), np.cos(0.51), 0), (0, -1, 0)]
    )
    heard = household.find_signalled(origin, aim, yes)
    np.testing.assert_array_equal(heard[:, 0], [True, True, False, False])
    assert not heard[:, 1:].any()
    assert not household.find_signalled(origin, aim, ~yes).any()
    far = lamp[None] - np.array([0, 5.9, 0])
    assert household.find_signalled(far, aim[:1], yes[:1])[0, 0]
    assert not household.find_signalled(
        far - np.array([0, 0.2, 0]), aim[:1], yes[:1]
    ).any()  # farther than it reaches
    low = np.array([[1.4, 1.95, 0.05]])  # on the floor before the stand that the radio is on
    assert not household.find_signalled(low, np.array([(0, 0.62, 0.785)]), yes[:1])[0, 3]


def test_objects_are_in_view_inside_the_cone_and_not_behind_furniture():
    screen = np.array(OBJECTS[SCREEN].place)
    eye = np.array([[0.0, 0.46, 1.75]] * 3)
    looking = np.array(
        [(0, 1, 0), (0, np.cos(0.39), np.sin(0.39)), (0, np.cos(0.41), np.sin(0.41))]
    )
    np.testing.assert_array_equal(
        household.find_in_view(eye, looking)[:, SCREEN], [True, True, False]
    )
    below = np.array([[0.55, 1.95, 0.05]])  # under the edge of the sideboard
    way = screen - below
    assert not household.find_in_view(below, way / np.linalg.norm(way))[0, SCREEN]


def test_the_oracle_does_what_each_component_asks():
    homes, rng = WORLD.vector(60), np.random.default_rng(0)
    observation = homes.reset(0)
    for _ in range(3):
        skill = rng.integers(0, 5, (60, 3))
        for _ in range(50):
            observation, _, _ = homes.step(WORLD.oracle(observation, skill))
    there = np.linalg.norm(observation[:, :2] - PLACES[skill[:, 0]], axis=1) < 0.2
    runs = (observation[:, RUNNING] == np.eye(5)[skill[:, 1], :4]).all(1)
    sees = (
        np.append(observation[:, IN_VIEW], np.ones((60, 2)), axis=1)[np.arange(60), skill[:, 2]] > 0
    )
    assert min(there.mean(), runs.mean(), sees.mean()) > 0.95


BARS = {"look-around": 19, "inspect": 15, "housekeep": 18}


@pytest.mark.parametrize("name", BARS)
def test_the_hand_written_solution_solves_the_task_and_random_actions_do_not(name):
    task = make_task(f"household/{name}")
    rng = np.random.default_rng(0)
    solved = ceiling_returns(task, episodes=8).sum(1).mean()
    assert solved >= BARS[name]

    def random_action(observation, _):
        return rng.uniform(-1, 1, (len(observation), 11)).astype(np.float32)

    assert (
        returns(task, lambda o: o, random_action, interval=1, episodes=8, seed=0).sum(1).mean()
        < 0.3 * BARS[name]
    )


def seen(**parts):
    """An observation in which little is said."""
    observation = jnp.zeros(42)
    if "at" in parts:
        observation = observation.at[:2].set(jnp.asarray(parts["at"]))
    for name in parts.get("runs", ()):
        observation = observation.at[3 + NAMES.index(name)].set(1.0)
    for index in parts.get("sees", ()):
        observation = observation.at[7 + index].set(1.0)
    return observation


def orders(order, read=False, age=0, in_view=False):
    return Orders(jnp.int32(order), jnp.int32(age), jnp.bool_(read), jnp.bool_(in_view))


def test_rewards_of_the_tasks_by_hand():
    look, inspect, keep = (make_task(f"household/{name}") for name in BARS)

    def paid(task, wanted, observation):
        """Of a window that starts with ten steps in which all was well, a step as observed, and then its end, the same."""
        variables, _, reward = task.judge(
            Graded(wanted, jnp.float32(0.2)), observation, jnp.bool_(False)
        )
        assert reward[0] == 0  # before the end of the window
        variables, _, reward = task.judge(variables, observation, jnp.bool_(True))
        assert variables.share == 0
        return round((float(reward[0]) - 0.2) * 50 / 2, 4)

    assert [paid(look, 2, seen(sees=[i])) for i in range(3)] == [0, 0, 1]
    assert paid(inspect, 0, seen(at=(-1.4, 0.2), runs=["lamp"])) == 1
    assert paid(inspect, 0, seen(at=(-1.4, 0.0), runs=["lamp"])) == 0  # too far
    assert paid(inspect, 0, seen(at=(-1.4, 0.2), runs=["fan"])) == 0
    fan, nothing = (orders(i) for i in (1, 4))
    assert paid(keep, fan, seen(runs=["fan"])) == 1
    assert paid(keep, fan, seen(runs=["fan", "lamp"])) == 0
    assert paid(keep, nothing, seen()) == 1 and paid(keep, nothing, seen(runs=["lamp"])) == 0


def test_orders_are_known_once_the_screen_is_read():
    task = make_task("household/housekeep")
    unread = Graded(orders(2), jnp.float32(0.5))
    np.testing.assert_array_equal(task.tell(unread), [0, 0, 0, 0, 0, 0.5])
    read, _, _ = task.judge(unread, seen(sees=[SCREEN]), False)
    read, _, _ = task.judge(read, seen(), False)  # and remembered
    np.testing.assert_array_equal(task.tell(read)[:-1], np.eye(5)[2])
    assert task.words(read) == "run the television (read)"


@pytest.mark.parametrize("looks", [True, False])
def test_a_new_order_is_known_at_once_to_who_looks_at_the_screen(looks):
    task = make_task("household/housekeep")
    order = orders(2, read=True, age=ORDER_WINDOWS - 1)
    state = TaskState(seen(), Graded(order, jnp.float32(0)), jnp.int32(199), jnp.zeros(1))
    state = task.move_on(state, seen(sees=[SCREEN] if looks else []), jax.random.PRNGKey(0))
    order = state.variables.wanted
    assert int(order.order) != 2 and int(order.age) == 0 and bool(order.read) == looks
    begun, _ = task.begin(jax.random.PRNGKey(0), seen(sees=[SCREEN] if looks else []))
    assert bool(begun.wanted.read) == looks


def test_episodes_follow_the_seed_and_start_where_asked():
    homes, action = WORLD.vector(5), np.random.default_rng(0).uniform(-1, 1, (8, 5, 11))

    def play(seed):
        return np.stack([homes.reset(seed), *(homes.step(a)[0] for a in action)])

    first = play(4)
    np.testing.assert_array_equal(play(4), first)
    some = np.array([True, False, False, False, True])
    after = homes.reset(mask=some)
    assert (after[~some] == first[-1][~some]).all() and (after[some] != first[-1][some]).any(
        1
    ).all()


def test_gymnasium_accepts_it():
    check_env(gymnasium.make("dusdi/Household-v0", view="map", render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", ["FetchPush-v4", "FrankaKitchen-v1", "HandReach-v3"])
def test_worlds_of_gymnasium_robotics_work_with_the_same_mujoco(name):
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    env = gymnasium.make(name)
    env.reset(seed=0)
    observation, *_ = env.step(env.action_space.sample())
    assert np.isfinite(observation["observation"]).all()
    env.close()


def test_a_map_needs_no_graphics_and_names_what_the_task_wants():
    homes, told = WORLD.vector(1), make_task("household/inspect", view="map").vector(1)
    homes.reset(0), told.reset(0)
    plain, with_words = homes.render(), told.render()
    assert plain.shape == with_words.shape == (480, 480, 3)
    assert (plain[200:] == with_words[200:]).all() and (plain[:20] != with_words[:20]).any()


@pytest.mark.parametrize("view", ["room", "head"])
def test_pictures(view):
    homes = Household(view).vector(1)
    homes.reset(0)
    try:
        assert homes.render().std() > 20
    except UsageError as error:
        assert "apt install" in str(error)
        pytest.skip("no EGL and no OSMesa here")
    homes.close()


def test_unknown_views_are_refused():
    with pytest.raises(UsageError, match="unknown view 'film'; choose from: head, map, room"):
        dusdi.make("household", view="film")
    with pytest.raises(UsageError, match="only one view of 'walker'"):
        make_task("walker/run").choose_view("map")


def test_without_the_robot_the_error_names_the_extra(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "gymnasium_robotics" else find(name),
    )
    with pytest.raises(
        UsageError, match=r"'household' needs the package 'gymnasium_robotics'.*dusdi\[mujoco\]"
    ):
        dusdi.make("household").vector(1)
