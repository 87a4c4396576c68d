"""Distance travelled: a component is paid for moving its part of the state in its direction.

Networks phi_i map the entries that component i is about to a space of latent places, and a step
from s to s' pays

    r_i = (phi_i(s') - phi_i(s)) . z_i,

where z_i is the direction that the value of the component names. The networks maximise the same
under the constraint that no step is longer than a distance d,

    mean over the entries k of (phi(s') - phi(s))_k^2 <= d^2,

which is kept by a multiplier lambda that rises while it is violated. With d = 1 this is METRA
(Park et al. 2024), with CSD's distance it is CSD (Park et al. 2023). There is one constraint for
all components together, as in SUSD, or one for each of them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct

from dusdi.nets import EnsembleMLP
from dusdi.settings import POSITIVE, WIDEST, Group, setting
from dusdi.skill_space import SkillSpace
from dusdi.sources.controllability import Controllability, ControllabilityState
from dusdi.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class TravelSettings(Group):
    """How a method's phi are built and trained, and what they pay."""

    travel_hidden: tuple[int, ...] = setting(
        (1024, 1024), "hidden layers of each phi (METRA: 1024,1024)", low=1, high=WIDEST
    )
    travel_lr: float = setting(1e-4, "learning rate of each phi (METRA: 1e-4)", low=POSITIVE)
    travel_scale: float = setting(1.0, "reward for a distance of one (METRA: 1)", low=POSITIVE)
    travel_multiplier: float = setting(
        30.0, "lambda of the constraint at the start (METRA: 30)", low=POSITIVE
    )
    travel_multiplier_lr: float = setting(
        1e-4, "learning rate of log lambda (METRA: 1e-4)", low=POSITIVE
    )
    travel_slack: float = setting(
        1e-3, "epsilon, how much of the constraint's slack counts at most (METRA: 1e-3)"
    )


#: What presets for few updates change: rates with which phi and lambda get somewhere.
FAST_TRAVEL: dict[str, Any] = dict(
    travel_hidden=(128, 128),
    travel_lr=1e-3,
    travel_multiplier_lr=3e-3,
)


class TravelState(struct.PyTreeNode):
    """Parameters and optimisers; `log_multiplier` is [1] or [targets]."""

    params: Any
    log_multiplier: jax.Array
    optimiser: optax.OptState
    multiplier_optimiser: optax.OptState
    density: ControllabilityState | None


@dataclasses.dataclass(frozen=True, eq=False)
class Travel:
    """Networks in whose latent space components travel.

    Attributes:
      skill_space: the skills.
      targets: the components that it pays, by their place in the skill.
      masks: bool [targets, D], the observation entries that each phi sees.
      settings: of networks, multipliers and reward.
      shared: whether there is one constraint, on all phi together, or one for each.
      density: what tells how hard changes are to predict, if that counts.
      controllability: whether d is CSD's distance instead of 1: d^2 is the mean of
        `Controllability.surprise` over the entries that the constraint is about.
      weighted: whether the reward of component i is multiplied by sqrt(c_i), where c_i is the sum
        of `Controllability.surprise` over its entries, divided by the number of all entries (SUSD).
    """

    skill_space: SkillSpace
    targets: tuple[int, ...]
    masks: np.ndarray
    settings: TravelSettings
    shared: bool = True
    density: Controllability | None = None
    controllability: bool = False
    weighted: bool = False

    @functools.cached_property
    def _paid(self) -> SkillSpace:
        """The components that are paid, as a skill of their own."""
        return self.skill_space.part(self.targets)

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        """The dimensions in which each component travels, [targets]."""
        return np.array([space.size for space in self._paid.spaces])

    def _networks(self) -> list[EnsembleMLP]:
        """An ensemble of phi for each group of components."""
        return [
            EnsembleMLP(len(group.members), self.settings.travel_hidden, group.space.size)
            for group in self._paid.groups
        ]

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.settings.travel_lr)

    @property
    def _multiplier_optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.settings.travel_multiplier_lr)

    def init(self, key: jax.Array) -> TravelState:
        density_key, *keys = jax.random.split(key, 1 + len(self._paid.groups))
        observation = jnp.zeros((1, self.masks.shape[1]))
        params = [
            network.init(key, observation, x_mask=self.masks[group.members])
            for network, group, key in zip(self._networks(), self._paid.groups, keys, strict=True)
        ]
        count = 1 if self.shared else len(self.targets)
        log_multiplier = jnp.full(count, math.log(self.settings.travel_multiplier))
        return TravelState(
            params=params,
            log_multiplier=log_multiplier,
            optimiser=self._optimiser.init(params),
            multiplier_optimiser=self._multiplier_optimiser.init(log_multiplier),
            density=self.density.init(density_key) if self.density else None,
        )

    def _moves(self, params: Any, batch: Batch) -> list[jax.Array]:
        """phi(s') - phi(s) for each group of components, [B, members, size]."""
        both = jnp.concatenate([batch.observation, batch.next_observation])
        moves = []
        for network, group, part in zip(self._networks(), self._paid.groups, params, strict=True):
            places: Any = network.apply(part, both, x_mask=self.masks[group.members])
            before, after = jnp.split(places, 2, axis=1)
            moves.append(jnp.swapaxes(after - before, 0, 1))
        return moves

    def _travelled(self, params: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """How far each component got in its direction, and the squared length, each [B, targets]"""
        skill = batch.skill[:, self.skill_space.places(self.targets)]
        along = []
        squares = []
        for group, move in zip(self._paid.groups, self._moves(params, batch), strict=True):
            direction = group.space.direction(self._paid.gather(skill, group))
            along.append(jnp.sum(move * direction, axis=-1))
            squares.append(jnp.sum(move**2, axis=-1))
        return self._paid.arrange(along), self._paid.arrange(squares)

    def _room(self, squares: jax.Array, state: TravelState, batch: Batch) -> jax.Array:
        """d^2 less the mean squared entry of the moves: how much longer they may be, [B, 1 or T].

        Negative where the constraint is violated.
        """
        if self.shared:
            length = squares.sum(1, keepdims=True) / self._sizes.sum()
        else:
            length = squares / self._sizes
        return self._allowed(state, batch) - length

    def _allowed(self, state: TravelState, batch: Batch) -> jax.Array:
        """d^2, [B, 1 or T], or [1, 1] if it is 1 for all."""
        if not self.controllability:
            return jnp.ones((1, 1))
        assert self.density is not None and state.density is not None
        about = np.atleast_2d(self.masks.any(0)) if self.shared else self.masks
        weights = about[:, self.density.columns] / about.sum(1, keepdims=True)
        return self.density.surprise(state.density.params, batch) @ weights.T.astype(np.float32)

    def weights(self, state: TravelState, batch: Batch) -> jax.Array:
        """sqrt(c_i), the weight of each component's reward, [B, targets]; or [1, 1]."""
        if not self.weighted:
            return jnp.ones((1, 1))
        assert self.density is not None and state.density is not None
        own = self.masks[:, self.density.columns].T.astype(np.float32)
        surprise = self.density.surprise(state.density.params, batch)
        return jnp.sqrt(surprise @ own / len(self.density.columns))

    def reward(self, state: TravelState, batch: Batch, step: jax.Array) -> jax.Array:
        """How far each target got in its direction, weighted and scaled, [B, targets]."""
        del step
        travelled, _ = self._travelled(state.params, batch)
        return self.settings.travel_scale * travelled * self.weights(state, batch)

    def update(
        self, state: TravelState, key: jax.Array, batch: Batch, step: jax.Array
    ) -> tuple[TravelState, Metrics]:
        """One Adam step of all phi, then of the multipliers, then of the density."""
        del key, step
        slack = self.settings.travel_slack
        multiplier = jnp.exp(state.log_multiplier)

        def loss_fn(params):
            travelled, squares = self._travelled(params, batch)
            room = self._room(squares, state, batch)
            value = travelled.sum(1) + jnp.minimum(slack, room) @ multiplier
            return -value.mean(), (travelled.mean(0), room)

        grads, (travelled, room) = jax.grad(loss_fn, has_aux=True)(state.params)
        updates, optimiser = self._optimiser.update(grads, state.optimiser)
        metrics = {
            f"travel/{name}": value for name, value in zip(self._paid.names, travelled, strict=True)
        }
        state, said = self._update_multiplier(state, room)
        metrics |= said
        if self.weighted:
            weights = self.weights(state, batch).mean(0)
            named = zip(self._paid.names, weights, strict=True)
            metrics |= {f"weight/{name}": weight for name, weight in named}
        state = state.replace(
            params=optax.apply_updates(state.params, updates), optimiser=optimiser
        )
        if self.density is not None and state.density is not None:
            density, metrics["loss/density"] = self.density.update(state.density, batch)
            state = state.replace(density=density)
        return state, metrics

    def _update_multiplier(
        self, state: TravelState, room: jax.Array
    ) -> tuple[TravelState, Metrics]:
        """Lowers log lambda where there is room, and raises it where there is none.

        The loss is log lambda times the mean of min(epsilon, room), so this is its gradient.
        """
        grads = jnp.minimum(self.settings.travel_slack, room).mean(0)
        updates, optimiser = self._multiplier_optimiser.update(grads, state.multiplier_optimiser)
        names = ("",) if self.shared else tuple(f"/{name}" for name in self._paid.names)
        metrics = {}
        for name, log_multiplier, mean in zip(
            names, state.log_multiplier, room.mean(0), strict=True
        ):
            metrics[f"multiplier{name}"] = jnp.exp(log_multiplier)
            metrics[f"room{name}"] = mean
        log_multiplier = state.log_multiplier + updates
        state = state.replace(log_multiplier=log_multiplier, multiplier_optimiser=optimiser)
        return state, metrics


def mean_travel(space: SkillSpace, row: Mapping[str, float]) -> dict[str, float]:
    """The mean distance that components travel in a step: the headline of methods paid for it."""
    found = [row[f"travel/{name}"] for name in space.names if f"travel/{name}" in row]
    return {"travel": float(np.mean(found))} if found else {}
