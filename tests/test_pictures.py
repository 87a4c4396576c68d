"""Pictures of Multi-Particle, encoders of them, and the world that is seen through one."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import dusdi
from dusdi.cli import main
from dusdi.encoder import STRIDE, Encoder, HeatMaps, load_encoder, mean_places
from dusdi.encoder_training import (
    EncoderTrainer,
    nearest_cells,
    redrawing_loss,
    spread,
    train_encoder,
    visible,
)
from dusdi.envs.particle import ParticleState
from dusdi.envs.pictured import Encoded
from dusdi.errors import CheckpointError, UsageError
from dusdi.rollouts import collect
from dusdi.skill_space import Component, SkillSpace
from dusdi.spaces import Categorical

WORLD = dusdi.make("multi-particle", agents=2)
DISCS = WORLD.discs  # stations 0 and 1, then agents 0 and 1


def picture(station, position):
    state = ParticleState(np.array(position), np.zeros((2, 2)), np.array(station))
    return np.asarray(WORLD.picture(state))


def colour(name):
    return np.round(255 * DISCS.colours[DISCS.names.index(name)]).astype(int).tolist()


def test_discs_are_where_the_state_says_and_agents_are_over_stations():
    seen = picture(station=[[0.5, 0.5], [-0.5, -0.5]], position=[[-0.5, -0.5], [0.0, 0.9]])
    assert seen.shape == (64, 64, 3) and seen.dtype == np.uint8
    assert seen[0, 0].tolist() == [255, 255, 255]
    # a place (x, y) is at column 32 + 28.8 x and row 32 - 28.8 y
    assert seen[17, 46].tolist() == colour("station 0")
    assert seen[46, 17].tolist() == colour("agent 0")  # over station 1
    assert seen[46, 13].tolist() == colour("station 1")  # 4.6 pixels from its middle, of 5.3
    assert seen[6, 32].tolist() == colour("agent 1")
    assert seen[6, 37].tolist() == [255, 255, 255]  # 5.5 pixels away, of 3.2


def test_what_a_disc_hides_is_not_visible():
    places = jnp.array([[0.0, 0.0], [0.9, 0.9], [0.0, 0.0], [-0.9, 0.0]])
    share = np.asarray(visible(DISCS, places))
    assert share[1:] == pytest.approx(1.0, abs=1e-3)
    assert share[0] == pytest.approx(1 - (3.2 / 5.3) ** 2, abs=0.03)


def test_heat_maps_of_the_nearest_cells_have_their_mean_at_the_place():
    lines = DISCS.lines(DISCS.pixels // STRIDE)
    places = jax.random.uniform(jax.random.PRNGKey(0), (7, 4, 2), minval=-1.0, maxval=1.0)
    maps = nearest_cells(places, lines)
    assert np.allclose(maps.sum(1), 1.0, atol=1e-5)
    assert ((maps > 1e-6).sum(1) <= 4).all()
    assert np.allclose(mean_places(maps, lines), places, atol=1e-5)


def test_what_is_redrawn_from_sharp_heat_maps_is_the_disc():
    count = DISCS.pixels // STRIDE
    maps = np.zeros((1, count, count, 4), np.float32)
    maps[0, 10, 20] = 1.0
    taken = np.asarray(spread(jnp.asarray(maps), DISCS))[0]
    areas = np.pi * (DISCS.radii / STRIDE) ** 2
    assert taken.sum((0, 1)) == pytest.approx(areas, rel=0.05)
    assert (taken[10, 20] == 1.0).all() and (taken[10, 24] == 0.0).all()


class Pointing:
    """Instead of a network: heat maps that are given as parameters."""

    def apply(self, params, pictures):
        return jnp.log(params + 1e-9)


def test_redrawing_costs_least_where_things_are_and_takes_no_labels():
    lines = DISCS.lines(DISCS.pixels // STRIDE)
    key = jax.random.PRNGKey(1)
    places = jax.random.uniform(key, (5, 4, 2), minval=-0.8, maxval=0.8)
    pictures = jax.vmap(DISCS.draw)(places)

    def loss(at):
        return float(redrawing_loss(Pointing(), DISCS, nearest_cells(at, lines), pictures, None))

    swapped = places[:, [2, 1, 0, 3]]  # a station and its agent, which have one colour
    assert loss(places) < 0.25 * loss(places + 0.1)
    assert loss(places) < 0.25 * loss(swapped)


@pytest.fixture(scope="module", params=[True, False], ids=["labels", "redrawing"])
def encoder(request):
    options = {"updates": 200, "batch_size": 16, "labels": request.param}
    return train_encoder(dusdi.make("multi-particle", agents=1), **options)


@pytest.mark.slow
def test_an_encoder_learns_where_things_are(encoder):
    errors = encoder.description["errors"]
    assert errors["agent"]["mean"] < 0.15 and errors["station"]["mean"] < 0.05, errors


def untrained(agents=2, seed=0):
    trainer = EncoderTrainer(dusdi.make("multi-particle", agents=agents), updates=1, batch_size=1)
    description = {
        "world": "multi-particle",
        "things": list(trainer.world.discs.names),
        "pixels": 64,
        "lines": trainer.lines.tolist(),
        "features": [16, 32],
    }
    network = HeatMaps(2 * agents)
    params = network.init(jax.random.PRNGKey(seed), jnp.zeros((1, 64, 64, 3), jnp.uint8))
    return Encoder(params, description)


def test_a_file_holds_all_that_an_encoder_is(tmp_path):
    made = untrained()
    made.save(tmp_path / "encoder.safetensors")
    for path in (tmp_path, tmp_path / "encoder.safetensors"):
        found = load_encoder(path)
        assert found.digest == made.digest and found.names == made.names
        pictures = np.random.default_rng(0).integers(0, 255, (3, 64, 64, 3), np.uint8)
        assert np.array_equal(found.places(pictures), made.places(pictures))
    assert untrained(seed=1).digest != made.digest


def test_files_that_hold_no_encoder_are_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no encoder at"):
        load_encoder(tmp_path)
    path = tmp_path / "encoder.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="damaged or not an encoder"):
        load_encoder(path)
    made = untrained()
    made.params["params"]["Conv_0"]["kernel"] = np.zeros((1, 1, 3, 16), np.float32)
    made.save(path)
    with pytest.raises(CheckpointError, match="does not say what encoder it is"):
        load_encoder(path)
    made = untrained()
    del made.description["lines"]
    made.save(path)
    with pytest.raises(CheckpointError, match="does not say what encoder it is: KeyError"):
        load_encoder(path)


def test_an_encoder_of_another_world_is_refused():
    with pytest.raises(UsageError, match="is for 6 things in pictures of 'multi-particle' of 64"):
        Encoded(WORLD, untrained(agents=3))
    with pytest.raises(UsageError, match="'gunner-2d' shows no pictures"):
        Encoded(dusdi.make("gunner-2d"), untrained())


def test_an_encoded_world_shows_what_the_encoder_sees():
    world = Encoded(WORLD, untrained())
    assert world.spec.factors == WORLD.spec.factors
    assert world.spec.options["encoder"] == world.encoder.digest
    state = world.reset(jax.random.PRNGKey(0))
    key = jax.random.PRNGKey(1)
    after = world.step(state, jnp.ones(world.spec.action_size), key)
    places = [
        np.asarray(world.encoder.places(WORLD.picture(s.inner)[None])[0]) for s in (state, after)
    ]
    station, position = np.split(places[1], 2)
    velocity = (position - places[0][2:]) / 0.1
    distance = np.linalg.norm(position - station, axis=1)
    seen = np.concatenate(
        [distance, np.concatenate([velocity, position], 1).ravel(), station.ravel()]
    )
    assert np.allclose(world.observe(after), seen, atol=1e-4)
    motion = np.asarray(world.observe(state))[2:10].reshape(2, 4)
    assert (motion[:, :2] == 0).all()  # nothing moved yet


def test_rollouts_of_an_encoded_world_know_the_true_factors():
    world = Encoded(WORLD, untrained())
    space = SkillSpace((Component("a", Categorical(2)),))
    actions = np.random.default_rng(0).uniform(-1, 1, (10, world.spec.action_size))

    def actor(observation, skill, state):
        return actions[: len(observation)]

    options = {"steps": 300, "skill_length": 10, "seed": 3}
    seen = collect(world, actor, space, **options)
    plain = collect(WORLD, actor, space, **options)
    assert plain.truth is None and not np.allclose(seen.observation, plain.observation)
    assert seen.truth == pytest.approx(plain.observation, abs=1e-5)
    assert np.array_equal(seen.skill, plain.skill)


def test_an_encoded_world_is_drawn_as_it_is_and_as_it_is_seen():
    world = Encoded(WORLD, untrained())
    state = world.reset(jax.random.PRNGKey(0))
    plain = world.render(state)
    assert np.array_equal(plain, WORLD.render(state.inner))
    shown = {}
    for view in ("picture", "encoded"):
        world.choose_view(view)
        shown[view] = world.render(state)
        assert shown[view].shape == (512, 512, 3)
    assert (shown["picture"] != shown["encoded"]).any()
    with pytest.raises(UsageError, match="unknown view"):
        world.choose_view("infrared")


@pytest.mark.slow
def test_a_run_carries_its_encoder(tmp_path, monkeypatch):
    untrained(agents=3).save(tmp_path / "given" / "encoder.safetensors")
    world = dusdi.make("multi-particle", agents=3, encoder=str(tmp_path / "given"))
    run, task = tmp_path / "run", tmp_path / "task"
    options = {"preset": "debug", "progress": False}
    skills = dusdi.pretrain(world, steps=640, out=run, **options)
    assert skills.spec.options["encoder"] == world.encoder.digest
    monkeypatch.setattr("dusdi.files._BY_DIGEST", {})  # as in a new process
    shutil.rmtree(tmp_path / "given")
    assert np.isfinite(dusdi.evaluate(run, steps=10_000).disentanglement)
    report = dusdi.evaluation.measure(run, steps=10_000)
    true = dusdi.evaluate(run, steps=10_000, true_factors=True)
    assert report["true_factors"]["disentanglement"] == true.disentanglement
    assert report["disentanglement"] != true.disentanglement
    assert (run / "dci-true.png").exists()
    dusdi.downstream(run, "multi-particle/food-poison-easy", steps=8_000, out=task, **options)
    shutil.rmtree(run)
    monkeypatch.setattr("dusdi.files._BY_DIGEST", {})
    with pytest.raises(UsageError, match=f"there is no encoder at {world.encoder.digest}"):
        dusdi.make("multi-particle", agents=3, encoder=world.encoder.digest)
    assert np.isfinite(dusdi.evaluate_task(task, episodes=2))


@pytest.mark.slow
def test_an_encoder_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "multi-particle --env-option agents=1 --updates 3 --batch-size 4 --quiet --no-labels"
    assert main(["encode", *words.split()]) == 0
    out = capsys.readouterr().out
    folder = tmp_path / "runs" / "multi-particle-encoder-redrawing-seed0"
    assert "station" in out and "next: dusdi pretrain multi-particle --env-option" in out
    assert load_encoder(folder).description["labels"] is False
    assert Image.open(folder / "encoder.png").size == (4 * 512 + 3 * 8, 512)
    assert main(["encode", *words.split()]) == 2
    assert "holds an encoder already" in capsys.readouterr().err
    assert "--env-option agents=1 --env-option encoder=" in out
    assert main(["encode", "multi-particle", "--updates", "0"]) != 0
    assert "updates must be" in capsys.readouterr().err
    assert main(["pretrain", "multi-particle", "--env-option", "encoder=5"]) == 2
    assert "encoder is a file or a folder, not 5" in capsys.readouterr().err
    assert main(["encode", "gunner-2d"]) == 2
    assert "'gunner-2d' shows no pictures" in capsys.readouterr().err
