"""Pictures of Multi-Particle, encoders of them, and the world that is seen through one."""

import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import dusdi
from dusdi.cli import main
from dusdi.encoder import (
    CELL,
    WINDOW,
    Encoder,
    Finder,
    Found,
    load_encoder,
    planes,
    proposals,
    windows,
)
from dusdi.encoder_training import (
    EncoderTrainer,
    finding_loss,
    nearest_cells,
    train_encoder,
    visible,
)
from dusdi.envs.particle import ParticleState
from dusdi.envs.pictured import Encoded
from dusdi.errors import CheckpointError, UsageError
from dusdi.rollouts import collect
from dusdi.skill_space import Component, SkillSpace
from dusdi.spaces import Categorical
from dusdi.stepping import CompiledStepper

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
    lines = DISCS.lines(DISCS.pixels // CELL)
    places = jax.random.uniform(jax.random.PRNGKey(0), (7, 4, 2), minval=-1.0, maxval=1.0)
    maps = nearest_cells(places, lines)
    assert np.allclose(maps.sum(1), 1.0, atol=1e-5)
    assert ((maps > 1e-6).sum(1) <= 4).all()
    maps = maps.reshape(7, len(lines), len(lines), 4)  # rows, columns
    assert np.allclose(np.einsum("brcm,c->bm", maps, lines), places[..., 0], atol=1e-5)
    assert np.allclose(np.einsum("brcm,r->bm", maps, -lines), places[..., 1], atol=1e-5)


def test_planes_say_how_much_a_pixel_has_of_a_colour():
    seen = picture(station=[[0.5, 0.5], [-0.5, -0.5]], position=[[-0.5, -0.5], [0.0, 0.9]])
    own, paper = (np.asarray(part)[0] for part in planes(DISCS, seen[None]))
    first, second = DISCS.colour_of[:2]
    assert own.shape == (2, 64, 64)
    assert own[first, 17, 46] == pytest.approx(1.0, abs=0.02) == own[first, 46, 17]
    assert own[second, 46, 13] == pytest.approx(1.0, abs=0.02) and own[second, 17, 46] == 0.0
    assert paper[0, 0] == 1.0 and own[:, 0, 0].max() == pytest.approx(0.0, abs=1e-6)


def test_proposals_are_the_highest_cells_that_are_no_neighbours():
    cells = 8
    maps = np.zeros((1, cells, cells, 1), np.float32)
    maps[0, 2, 5], maps[0, 2, 6], maps[0, 7, 0], maps[0, 4, 5] = 9.0, 8.0, 7.0, 6.0
    found = np.asarray(proposals(jnp.asarray(maps.reshape(1, cells**2, 1)), cells))[0, 0]
    assert found[:3].tolist() == [[22.0, 10.0], [2.0, 30.0], [22.0, 18.0]]  # columns, rows


def test_windows_are_cut_around_pixels_and_end_with_the_picture():
    plane = jnp.arange(2 * 64 * 64.0).reshape(1, 2, 64, 64)
    middle = jnp.array([[[[10, 20]], [[0, 0]]]])  # of two things, one place each
    cut = np.asarray(windows(plane, jnp.array([1, 0]), middle, outside=-1.0))
    cut = cut.reshape(2, WINDOW, WINDOW)
    half = WINDOW // 2
    assert cut[0, half, half] == 64 * 64 + 20 * 64 + 10
    assert cut[1, half, half] == 0.0 and (cut[1, :half] == -1.0).all()


def test_the_loss_asks_for_the_nearest_proposal_and_its_place():
    place = jnp.array([[[0.0, 0.0]]])  # the middle of the picture, pixel (32, 32)
    flat = jnp.full((1, 256, 1), -jnp.log(256.0))
    pixels = jnp.array([[[[32.0, 35.0], [2.0, 2.0]]]])
    discs = dusdi.make("multi-particle", agents=1).discs

    def loss(scores, proposed=pixels):
        found = Found(flat, proposed, jnp.array([[scores]]), pixels)
        return float(finding_loss(discs, found, place)) - np.log(256.0)

    assert loss([0.0, 0.0]) == pytest.approx(3.0 + np.log(2.0), abs=1e-3)
    assert loss([9.0, 0.0]) == pytest.approx(3.0, abs=1e-3)
    assert loss([0.0, 0.0], pixels.at[0, 0, 0].set(50.0)) == pytest.approx(
        0.0, abs=1e-4
    )  # not proposed


def test_things_that_look_the_same_are_refused():
    with pytest.raises(UsageError, match="'station 0' and 'station 10' have the same colour"):
        EncoderTrainer(dusdi.make("multi-particle", agents=11), updates=1)


@pytest.fixture(scope="module", params=[True, False], ids=["labels", "drawings"])
def encoder(request):
    options = {"updates": 400, "batch_size": 32, "labels": request.param}
    return train_encoder(dusdi.make("multi-particle", agents=1), **options)


@pytest.mark.slow
def test_an_encoder_learns_where_things_are(encoder):
    errors = encoder.description["errors"]
    assert errors["agent"]["mean"] < 0.15 and errors["station"]["mean"] < 0.05, errors


@pytest.mark.slow
def test_training_that_was_stopped_goes_on_to_the_same_encoder(tmp_path, monkeypatch):
    world = dusdi.make("multi-particle", agents=1)
    options = {"updates": 7, "batch_size": 4}
    whole = train_encoder(world, **options)
    advance = EncoderTrainer.update
    calls = []

    def stop_at_the_third(self, state):
        calls.append(state)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return advance(self, state)

    monkeypatch.setattr(EncoderTrainer, "update", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt, match="stopped at update 3; saved in"):
        train_encoder(world, out=tmp_path, **options)
    with pytest.raises(UsageError, match="half trained; go on with --resume"):
        train_encoder(world, out=tmp_path, **options)
    with pytest.raises(UsageError, match="trained with seed 0, not 1"):
        train_encoder(world, out=tmp_path, resume=True, seed=1, **options)
    rest = train_encoder(world, out=tmp_path, resume=True, **options)
    assert rest.digest == whole.digest == load_encoder(tmp_path).digest
    assert len(calls) == 3 + 4
    # Nothing is left to do, and nobody else's files are touched.
    assert train_encoder(world, out=tmp_path, resume=True, **options).digest == whole.digest
    with pytest.raises(UsageError, match="holds an encoder already"):
        train_encoder(world, out=tmp_path, **options)
    kept = tmp_path / "other" / "checkpoints" / "best.pt"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    train_encoder(world, out=tmp_path / "other", updates=1, batch_size=2)
    assert kept.read_text() == "mine"


def untrained(agents=2, seed=0):
    trainer = EncoderTrainer(dusdi.make("multi-particle", agents=agents), updates=1, batch_size=2)
    discs = trainer.world.discs
    network = {"features": 4, "hidden": 8}
    pictures = jnp.zeros((1, 64, 64, 3), jnp.uint8)
    params = Finder(discs, **network).init(jax.random.PRNGKey(seed), pictures)
    return Encoder(
        params, {"world": "multi-particle", "discs": discs.to_json(), "network": network}
    )


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
    made.params["params"]["Conv_0"]["kernel"] = np.zeros((1, 1, 3, 4), np.float32)
    made.save(path)
    with pytest.raises(CheckpointError, match="does not say what encoder it is"):
        load_encoder(path)
    made = untrained()
    del made.description["discs"]
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


def test_seeds_that_step_at_once_behind_an_encoder_step_as_alone():
    stepper = CompiledStepper(Encoded(WORLD, untrained()), 3, 2)  # episodes of two steps
    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    action = jnp.ones((3, WORLD.spec.action_size))

    def play(key):
        episodes, _ = stepper.init(key)
        steps = []
        for _ in range(3):
            episodes, step = stepper.step(episodes, key, action)
            steps.append(step.observation)
        return jnp.stack(steps)

    both = jax.jit(jax.vmap(play))(keys)
    for key, found in zip(keys, both, strict=True):
        np.testing.assert_allclose(found, jax.jit(play)(key), atol=1e-4)


def test_an_encoded_world_is_drawn_as_it_is_and_as_it_is_seen():
    world = Encoded(WORLD, untrained())
    state = world.reset(jax.random.PRNGKey(0))
    plain = world.render(state)
    assert np.array_equal(plain, WORLD.render(state.inner))
    shown = {}
    for view in ("picture", "encoded"):
        world.choose_view(view)
        shown[view] = world.render(state)
    assert shown["picture"].shape == (512, 512, 3)
    assert shown["encoded"].shape == (512, 512 + 8 + 512, 3)
    assert np.array_equal(shown["encoded"][:, :512], shown["picture"])
    assert (shown["encoded"][:, 520:] != shown["picture"]).any()
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
    folder = tmp_path / "runs" / "multi-particle-agents=1-encoder-drawings-seed0"
    assert "station" in out and "next: dusdi pretrain multi-particle --env-option" in out
    assert load_encoder(folder).description["labels"] is False
    assert not (folder / "checkpoints").exists()
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
