"""The replay buffer: where transitions are written, and which of them are drawn."""

import jax
import jax.numpy as jnp
import numpy as np

from dusdi import replay
from dusdi.types import Transition


def batch(*numbers):
    """Transitions that are told apart by a number, which is in all of their parts."""
    column = np.array(numbers, np.float32)[:, None]
    return Transition(
        observation=np.concatenate([column, 10 * column], axis=1),
        action=column,
        reward=column,
        next_observation=np.concatenate([2 * column, 20 * column], axis=1),
        terminated=column[:, 0] > 5,
        skill=column.astype(np.int32),
        skill_age=column[:, 0].astype(np.int32),
    )


def filled(capacity, *batches):
    """A buffer to which the batches were added, and how many transitions that was."""
    ring = replay.init(batches[0], capacity)
    added = 0
    for rows in batches:
        ring = replay.add(ring, rows, jnp.int32(added))
        added += len(rows.action)
    return ring, jnp.int32(added)


def test_an_empty_buffer_has_the_shapes_and_types_of_the_transitions():
    ring = replay.init(batch(1, 2), capacity=6)
    for array, example in zip(ring, batch(1, 2), strict=True):
        assert array.shape == (6, *example.shape[1:])
    assert ring.skill.dtype == jnp.int32 and ring.terminated.dtype == jnp.bool_


def test_batches_are_written_one_after_the_other():
    ring, _ = filled(6, batch(1, 2), batch(3, 4))
    assert ring.action[:, 0].tolist() == [1, 2, 3, 4, 0, 0]
    assert ring.observation.tolist()[:2] == [[1, 10], [2, 20]]
    assert ring.next_observation.tolist()[3] == [8, 80]
    assert ring.skill_age.tolist() == [1, 2, 3, 4, 0, 0]


def test_when_the_buffer_is_full_the_oldest_transitions_are_overwritten():
    ring, _ = filled(4, batch(1, 2), batch(3, 4), batch(5, 6))
    assert ring.action[:, 0].tolist() == [5, 6, 3, 4]
    assert ring.terminated.tolist() == [False, True, False, False]


def test_only_transitions_that_were_added_are_drawn_and_all_of_them_are():
    ring, added = filled(8, batch(1, 2), batch(3, 4))
    drawn = replay.sample(ring, jax.random.PRNGKey(0), 200, added)
    assert set(drawn.action[:, 0].tolist()) == {1, 2, 3, 4}
    ring, added = filled(4, batch(1, 2), batch(3, 4), batch(5, 6))
    drawn = replay.sample(ring, jax.random.PRNGKey(0), 200, added)
    assert set(drawn.action[:, 0].tolist()) == {3, 4, 5, 6}


def test_the_parts_of_a_drawn_transition_belong_together():
    ring, added = filled(8, batch(1, 2), batch(3, 4))
    drawn = replay.sample(ring, jax.random.PRNGKey(1), 50, added)
    number = np.asarray(drawn.action[:, 0])
    np.testing.assert_array_equal(drawn.observation, np.stack([number, 10 * number], axis=1))
    np.testing.assert_array_equal(drawn.skill[:, 0], number)
    np.testing.assert_array_equal(drawn.skill_age, number)


def test_transitions_are_drawn_uniformly():
    """Each of 4 has a chance of 1/4: of 4,000 draws 1,000, with a deviation of 27."""
    ring, added = filled(8, batch(1, 2), batch(3, 4))
    drawn = replay.sample(ring, jax.random.PRNGKey(2), 4_000, added)
    counts = np.bincount(np.asarray(drawn.skill[:, 0]))[1:]
    np.testing.assert_allclose(counts, 1_000, atol=120)
