"""Worlds around other worlds: the same world seen through another observation, images for instance.

A wrapper passes everything on to the world inside. Subclasses replace `spec` and `observe`.
Rewards, scripted experts, images and tasks read the state of the unwrapped world, so they stay the
same.
"""

from __future__ import annotations

import abc

import numpy as np

from dusdi.envs.base import EnvState, HostWorld, JaxWorld, VectorWorld, World


def _share_attributes(wrapper: World, world: World) -> None:
    """Gives a wrapper what a world says of itself, except what was published of it."""
    wrapper.spec = world.spec
    wrapper.presets = world.presets
    wrapper.method_presets = world.method_presets
    wrapper.task_presets = world.task_presets
    wrapper.causal = world.causal
    wrapper.discounting = world.discounting
    wrapper.views = world.views
    wrapper.shows_truth = world.shows_truth


class WorldWrapper(JaxWorld):
    """A JAX world around another one.

    Its states are those of the world inside. A wrapper that remembers more overrides `reset` and
    `step`, and says by `inner_state` and `with_inner_state` where the other state is in its own.
    """

    def __init__(self, world: JaxWorld):
        self.world = world
        _share_attributes(self, world)
        if world.expert is not None:
            self.expert = self._expert

    def inner_state(self, state: EnvState) -> EnvState:
        """The state of the world inside."""
        return state

    def with_inner_state(self, state: EnvState, inner: EnvState) -> EnvState:
        """A state in which that of the world inside is replaced."""
        return inner

    @property
    def unwrapped(self):
        return self.world.unwrapped

    def unwrapped_state(self, state):
        return self.world.unwrapped_state(self.inner_state(state))

    def with_unwrapped_state(self, state, unwrapped):
        inner = self.world.with_unwrapped_state(self.inner_state(state), unwrapped)
        return self.with_inner_state(state, inner)

    def _expert(self, state, skill):
        assert self.world.expert is not None
        return self.world.expert(self.inner_state(state), skill)

    def reset(self, key):
        return self.world.reset(key)

    def step(self, state, action, key):
        return self.world.step(state, action, key)

    def observe(self, state):
        return self.world.observe(self.inner_state(state))

    def terminated(self, state):
        return self.world.terminated(self.inner_state(state))

    def reward(self, state):
        return self.world.reward(self.inner_state(state))

    def render(self, state):
        return self.world.render(self.inner_state(state))

    def true_observations(self, state):
        return self.world.true_observations(self.inner_state(state))

    def check_installed(self):
        self.world.check_installed()

    def save_parts(self, folder):
        self.world.save_parts(folder)

    def choose_view(self, view):
        self.world.choose_view(view)


class HostWorldWrapper(HostWorld):
    """A host world around another one. `VectorWorld.state` stays that of the world inside."""

    def __init__(self, world: HostWorld):
        self.world = world
        _share_attributes(self, world)
        self.expert = world.expert

    @property
    def unwrapped(self):
        return self.world.unwrapped

    @abc.abstractmethod
    def observe(self, observations: np.ndarray, state: EnvState) -> np.ndarray:
        """The observations [n, D] of this world, from those of the world inside and its state."""

    def check_installed(self):
        self.world.check_installed()

    def choose_view(self, view):
        self.world.choose_view(view)

    def vector(self, num_envs):
        return _WrappedVector(self, self.world.vector(num_envs))

    def vector_with_pictures(self, num_envs):
        return _WrappedVector(self, self.world.vector_with_pictures(num_envs))


class _WrappedVector(VectorWorld):
    """The environments of a `HostWorldWrapper`."""

    def __init__(self, wrapper: HostWorldWrapper, vector: VectorWorld):
        self._wrapper = wrapper
        self._vector = vector

    def reset(self, seed=None, mask=None):
        observations = self._vector.reset(seed, mask)
        return self._wrapper.observe(observations, self._vector.state())

    def step(self, actions):
        observations, terminated, truncated = self._vector.step(actions)
        return self._wrapper.observe(observations, self._vector.state()), terminated, truncated

    def rewards(self):
        return self._vector.rewards()

    def state(self):
        return self._vector.state()

    def render(self, index=0):
        return self._vector.render(index)

    def close(self):
        self._vector.close()
