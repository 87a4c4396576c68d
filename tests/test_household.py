"""Household: Fetch in a room that it can't leave, what it points at and sees, and its tasks."""

import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import dusdi
from dusdi.envs import household
from dusdi.envs.household import AFTERGLOW, EXPERT_PLACES, PRESSED, Household
from dusdi.envs.household_model import (
    APPLIANCES,
    FURNITURE,
    OBJECTS,
    ROOM,
    SUBSTEPS,
    WALL_HALF,
)
from dusdi.envs.physics import Simulation, load_mujoco
from dusdi.errors import UsageError, WorldError
from dusdi.tasks import make_task
from dusdi.tasks.household import SCREEN

mujoco = load_mujoco("household")
WORLD = Household(view="map")
NAMES = [thing.name for thing in APPLIANCES]
#: Observation entries of position, running, in view, remote and pointing.
ENTRIES = (slice(0, 2), slice(3, 7), slice(7, 10), slice(33, 36), slice(36, 39))


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

    simulation.reset(np.ones(5, bool), start)
    check()
    for _ in range(10):
        simulation.step(rng.uniform(-1, 1, (5, model.nu)))
        check()
    simulation.reset(np.arange(5) % 2 == 0, start)
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


@pytest.mark.slow
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
        # Fingers that slip when the arm swings would press by chance; the button is at 35 of 50 mm.
        for finger in fingers:
            closed = simulation.qpos[:, finger.qposadr[0]]
            assert (closed > finger.range[0] - 0.01).all() and (
                closed < finger.range[1] + 0.01
            ).all()


def test_physics_that_diverge_are_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log file where it is
    homes = WORLD.vector(2)
    homes.reset(0)
    homes._simulation.qvel[1, 0] = 1e12
    with pytest.raises(WorldError, match="physics of environment 1 diverged"):
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
    x, y, _ = observation[0, :3]
    assert 0.8 < np.hypot(x, y) < ROOM - 0.25
    if heading == -np.pi / 2:
        assert y > -2.1 + 0.38 + 0.2  # not into the sofa


def test_the_remote_control_runs_what_it_points_at_until_it_lets_go():
    homes = WORLD.vector(len(APPLIANCES))
    homes.reset(0)
    homes._simulation.qpos[:, :3] = 0.0, 0.0, np.pi / 2
    skill = np.stack([np.full(4, 4), np.arange(4), np.full(4, 3)], axis=1)
    for _ in range(15):
        homes.step(WORLD.expert(homes.state(), skill))
    np.testing.assert_array_equal(homes.state().running, np.eye(4))
    skill[:, 1] = 4
    silent = 0
    for _ in range(20):
        homes.step(WORLD.expert(homes.state(), skill))
        silent += homes.state().opening[0] >= PRESSED
        assert homes.state().running[0, 0] == (silent <= AFTERGLOW)
    assert not homes.state().running.any()


def test_the_state_is_what_the_observation_shows():
    homes = WORLD.vector(5)
    homes.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(10):
        observation, _, _ = homes.step(rng.uniform(-1, 1, (5, 11)))
    state = homes.state()
    shown = [state.position, state.running, state.in_view, state.remote, state.pointing]
    for found, entries in zip(shown, ENTRIES, strict=True):
        np.testing.assert_allclose(found, observation[:, entries], atol=1e-6)
    np.testing.assert_allclose(np.sin(state.heading), observation[:, 10], atol=1e-6)
    np.testing.assert_allclose(np.cos(state.heading), observation[:, 11], atol=1e-6)
    np.testing.assert_allclose(state.opening, observation[:, 31], atol=1e-6)
    np.testing.assert_allclose(state.looking, observation[:, 39:], atol=1e-6)


def test_signals_need_aim_a_pressed_button_and_a_free_way():
    lamp = np.array(APPLIANCES[0].place)
    before = lamp + np.array([0, -1.5, 0.0])
    origin, yes = np.stack([before] * 4), np.ones(4, bool)
    aim = np.array(
        [(0, 1, 0), (-np.sin(0.49), np.cos(0.49), 0), (-np.sin(0.51), np.cos(0.51), 0), (0, -1, 0)]
    )
    signalled = household.find_signalled(origin, aim, yes)
    np.testing.assert_array_equal(signalled[:, 0], [True, True, False, False])
    assert not signalled[:, 1:].any()
    assert not household.find_signalled(origin, aim, ~yes).any()
    far = lamp[None] - np.array([0, 5.9, 0])
    assert household.find_signalled(far, aim[:1], yes[:1])[0, 0]
    too_far = far - np.array([0, 0.2, 0])
    assert not household.find_signalled(too_far, aim[:1], yes[:1]).any()
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


def test_the_expert_does_what_each_component_asks():
    homes = WORLD.vector(60)
    homes.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        skill = rng.integers(0, 5, (60, 3))
        for _ in range(50):
            homes.step(WORLD.expert(homes.state(), skill))
    state = homes.state()
    there = np.linalg.norm(state.position - EXPERT_PLACES[skill[:, 0]], axis=1) < 0.2
    runs = (state.running == np.eye(5)[skill[:, 1], :4]).all(1)
    wanted = np.eye(5, dtype=bool)[skill[:, 2], :3]
    sees = (state.in_view | ~wanted).all(1)
    assert min(there.mean(), runs.mean(), sees.mean()) > 0.95


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


def test_a_map_needs_no_graphics_and_shows_the_goal_of_a_task():
    homes = WORLD.vector(1)
    task = make_task("household/inspect", view="map").vector(1)
    homes.reset(0)
    task.reset(0)
    plain = homes.render()
    labelled = task.render()
    assert plain.shape == labelled.shape == (480, 480, 3)
    assert (plain[200:] == labelled[200:]).all() and (plain[:20] != labelled[:20]).any()


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
