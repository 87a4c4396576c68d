"""The networks: one kind of MLP, many of them at once.

Actor, critics and discriminators are all an `EnsembleMLP`: E independent networks of equal shape
that see the same input through masks of their own, computed as batched matrix products. With
`film`, the skill also scales the first hidden layer (docs/ablation.md says what that is worth).
"""

from __future__ import annotations

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from dusdi.types import OneHot

LOG_2PI = math.log(2 * math.pi)


class EnsembleDense(nn.Module):
    """E dense layers: x [B, in], the same for all, or [E, B, in] -> [E, B, features].

    An input that all share may come in several arrays, as if they were concatenated; then no
    gradient is computed for those that need none. It may also be a single `OneHot`.

    Attributes:
      members: E.
      features: outputs of each layer.
      fan_in: inputs that the scale of the initial weights assumes; default: all of them.
      use_bias: whether the layers have a bias.
      gain: start of learned gains on the inputs of each member; 0: none.
      total: whether to sum the outputs of all members, [B, features].
    """

    members: int
    features: int
    fan_in: int | None = None
    use_bias: bool = True
    gain: float = 0.0
    total: bool = False

    @nn.compact
    def __call__(self, x: jax.Array | OneHot, *more: jax.Array) -> jax.Array:
        if isinstance(x, OneHot):
            return jnp.swapaxes(self._kernel(x.size, True)[x.places], 0, 1)
        parts = (x, *more)
        shared = x.ndim == 2
        kernel = self._kernel(sum(part.shape[-1] for part in parts), shared)
        if self.total:
            product = x.swapaxes(0, 1).reshape(x.shape[1], -1) @ kernel.reshape(-1, self.features)
        elif shared:
            product = self._shared_product(parts, kernel)
        else:
            product = jnp.einsum("ebi,eio->ebo", x, kernel)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, (self.members, 1, self.features))
            product += bias.sum(0) if self.total else bias
        return product

    def _kernel(self, inputs: int, shared: bool) -> jax.Array:
        """The weights, [E, in, features]; or [in, E, features] for an input that all share."""
        bound = 1 / math.sqrt(max(self.fan_in or inputs, 1))
        lead = (inputs, self.members) if shared else (self.members, inputs)
        shape = (*lead, self.features)
        uniform = functools.partial(jax.random.uniform, shape=shape, minval=-bound, maxval=bound)
        kernel = self.param("kernel", lambda key: uniform(key))
        if self.gain:
            # Adam grows the gains that a member needs and leaves the rest small.
            kernel = kernel * self.param("gain", nn.initializers.constant(self.gain), (*lead, 1))
        return kernel

    def _shared_product(self, parts: tuple[jax.Array, ...], kernel: jax.Array) -> jax.Array:
        """All members at once by one big matrix product, for which weights lie side by side."""
        inputs = kernel.shape[0]
        ends = np.cumsum([part.shape[-1] for part in parts])[:-1]
        blocks = jnp.split(kernel.reshape(inputs, -1), ends)
        products = [part @ block for part, block in zip(parts, blocks, strict=True)]
        flat = functools.reduce(jnp.add, products)
        return flat.reshape(len(flat), self.members, self.features).swapaxes(0, 1)


class EnsembleMLP(nn.Module):
    """E MLPs with ReLUs: x [B, in] and the encoded skill [B, Z] -> [E, B, outputs] or their sum.

    Attributes:
      film: whether the skill scales the first hidden layer.
      input_gain: start of learned gains on x; 0: none.
      total: whether to sum the outputs of all members.
    """

    members: int
    hidden: tuple[int, ...]
    outputs: int
    film: bool = False
    input_gain: float = 0.0
    total: bool = False

    @nn.compact
    def __call__(
        self,
        *x: jax.Array,
        skill: jax.Array | OneHot | None = None,
        x_mask: np.ndarray | None = None,
        skill_mask: np.ndarray | None = None,
    ) -> jax.Array:
        if x_mask is not None:
            x = (masked(jnp.concatenate(x, axis=-1), x_mask),)
        output = EnsembleDense(self.members, self.outputs, total=self.total, name="output")
        if not self.hidden:
            return output(*x)
        width = self.hidden[0]
        inputs = sum(part.shape[-1] for part in x)
        h = EnsembleDense(self.members, width, gain=self.input_gain, name="state")(*x)
        size = _width(skill)
        if skill is not None and size:
            if skill_mask is not None:
                assert not isinstance(skill, OneHot)
                skill = masked(skill, skill_mask)
                size = _width(skill)
            fan_in = inputs + size
            h += EnsembleDense(self.members, width, fan_in, False, name="skill")(skill)
            if self.film:
                # The initial scales differ from 1 by numbers of the size 1.
                h *= 1 + EnsembleDense(self.members, width, 1, False, name="film")(skill)
        h = nn.relu(h)
        for i, width in enumerate(self.hidden[1:]):
            h = nn.relu(EnsembleDense(self.members, width, name=f"hidden_{i}")(h))
        return output(h)


def _width(skill: jax.Array | OneHot | None) -> int:
    """The entries of each row of an encoded skill."""
    if skill is None:
        return 0
    return skill.size if isinstance(skill, OneHot) else skill.shape[-1]


class Actor(nn.Module):
    """A sum of E networks: mean and raw log deviation of a Gaussian, each [B, actions].

    Attributes:
      state_independent_std: whether the deviations are parameters that depend on no input.
    """

    members: int
    hidden: tuple[int, ...]
    actions: int
    film: bool
    input_gain: float
    state_independent_std: bool

    @nn.compact
    def __call__(
        self, observation: jax.Array, *, skill: jax.Array | OneHot, skill_mask: np.ndarray | None
    ) -> tuple[jax.Array, jax.Array]:
        outputs = self.actions * (1 if self.state_independent_std else 2)
        networks = EnsembleMLP(
            self.members,
            self.hidden,
            outputs,
            film=self.film,
            input_gain=self.input_gain,
            total=True,
            name="networks",
        )
        out = networks(observation, skill=skill, skill_mask=skill_mask)
        if not self.state_independent_std:
            mean, log_std = jnp.split(out, 2, axis=-1)
            return mean, log_std
        log_std = self.param("log_std", nn.initializers.zeros, (self.actions,))
        return out, jnp.broadcast_to(log_std, out.shape)


def masked_columns(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inputs that each member sees through a mask [E, in], and which of these are padding.

    Returns column numbers [E, n] and whether they count, bool [E, n], where n is the most inputs
    that any member sees.
    """
    columns = np.argsort(~mask, axis=1, kind="stable")[:, : mask.sum(1).max()]
    return columns, np.take_along_axis(mask, columns, axis=1)


def masked(x: jax.Array, mask: np.ndarray) -> jax.Array:
    """What each member sees of x [B, in] through a mask [E, in]: [E, B, n], padded with zeros."""
    columns, visible = masked_columns(mask)
    return jnp.where(visible[:, None], jnp.swapaxes(x[:, columns], 0, 1), 0.0)


def rbf_features(x: jax.Array, count: int, reach: float = 2.5) -> jax.Array:
    """Radial basis functions of each entry of x [..., D]: [..., D * count].

    The `count` Gaussians are spread evenly over [-reach, reach]; entries outside are clipped.
    """
    x = jnp.clip(x, -reach, reach)
    centres = jnp.linspace(-reach, reach, count)
    width = 2 * reach / (count - 1)
    features = jnp.exp(-0.5 * ((x[..., None] - centres) / width) ** 2)
    return features.reshape(*x.shape[:-1], x.shape[-1] * count)


def squashed_gaussian(
    key: jax.Array, mean: jax.Array, log_std: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A sample of tanh(N(mean, std)) [B, A] and its log density [B]."""
    noise = jax.random.normal(key, mean.shape)
    raw = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * LOG_2PI
    # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), which does not underflow.
    log_slope = 2 * (math.log(2.0) - raw - jax.nn.softplus(-2 * raw))
    return jnp.tanh(raw), jnp.sum(log_normal - log_slope, axis=-1)
