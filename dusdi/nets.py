"""The networks: one kind of MLP, many of them at once.

Actor, critics and discriminators are all an `EnsembleMLP`: E independent networks of equal shape that see the
same input through masks of their own, computed as batched matrix products. With `gate`, the skill also
multiplies the first hidden layer (docs/experiments.md says why that matters).
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

LOG_2PI = math.log(2 * math.pi)


class EnsembleDense(nn.Module):
    """E dense layers: x [E, B, in] -> [E, B, features].

    Attributes:
      members: E.
      features: outputs of each layer.
      fan_in: inputs that the initial weights reckon with; default: all of them.
      use_bias: whether the layers have a bias.
    """

    members: int
    features: int
    fan_in: int | None = None
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        bound = 1 / math.sqrt(max(self.fan_in or x.shape[-1], 1))

        def uniform(key, shape):
            return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        kernel = self.param("kernel", uniform, (self.members, x.shape[-1], self.features))
        product = jnp.einsum("ebi,eio->ebo", x, kernel)
        if self.use_bias:
            product += self.param("bias", nn.initializers.zeros, (self.members, 1, self.features))
        return product


class EnsembleMLP(nn.Module):
    """E independent MLPs with ReLUs: x [B, in] (and the encoded skill [B, Z]) -> [E, B, outputs]."""

    members: int
    hidden: tuple[int, ...]
    outputs: int
    gate: bool = False
    input_gain: float = 0.0

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        skill: jax.Array | None = None,
        x_mask: np.ndarray | None = None,
        skill_mask: np.ndarray | None = None,
    ) -> jax.Array:
        x = self._seen(x, x_mask)
        if not self.hidden:
            return EnsembleDense(self.members, self.outputs, name="output")(x)
        width, inputs = self.hidden[0], x.shape[-1]
        if self.input_gain:
            # Adam grows what a member needs and leaves the rest small: a soft choice of inputs.
            x *= self.param("gain", nn.initializers.constant(self.input_gain), (self.members, 1, inputs))
        h = EnsembleDense(self.members, width, name="state")(x)
        if skill is not None and skill.shape[-1]:
            skill = self._seen(skill, skill_mask)
            h += EnsembleDense(self.members, width, inputs + skill.shape[-1], False, name="skill")(skill)
            if self.gate:
                # FiLM: each skill sees its own scaling of the same features; entries near one in size.
                h *= 1 + EnsembleDense(self.members, width, 1, False, name="gate")(skill)
        h = nn.relu(h)
        for i, width in enumerate(self.hidden[1:]):
            h = nn.relu(EnsembleDense(self.members, width, name=f"hidden_{i}")(h))
        return EnsembleDense(self.members, self.outputs, name="output")(h)

    def _seen(self, x: jax.Array, mask: np.ndarray | None) -> jax.Array:
        """What each member sees of x [B, in], as [E, B, most that any sees]; who sees less sees zeros in the end."""
        if mask is None:
            # XLA on the CPU computes `bi,eio->ebo` transposed and copies the result; a copy of the input per member is cheaper.
            return jnp.broadcast_to(x, (self.members, *x.shape))
        columns = np.argsort(~mask, axis=1, kind="stable")[:, : mask.sum(1).max()]
        visible = np.take_along_axis(mask, columns, axis=1)
        return jnp.where(visible[:, None], jnp.swapaxes(x[:, columns], 0, 1), 0.0)


def bumps(x: jax.Array, count: int, reach: float = 2.5) -> jax.Array:
    """Each entry of x [..., D] seen through `count` Gaussian bumps spread evenly over [-reach, reach]: [..., D * count].

    What lies beyond is seen at the end.
    """
    x = jnp.clip(x, -reach, reach)
    centres = jnp.linspace(-reach, reach, count)
    width = 2 * reach / (count - 1)
    features = jnp.exp(-0.5 * ((x[..., None] - centres) / width) ** 2)
    return features.reshape(*x.shape[:-1], x.shape[-1] * count)


def squashed_gaussian(key: jax.Array, mean: jax.Array, log_std: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A sample of tanh(N(mean, std)) [B, A] and its log density [B]."""
    noise = jax.random.normal(key, mean.shape)
    raw = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * LOG_2PI
    # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), which does not underflow
    log_slope = 2 * (math.log(2.0) - raw - jax.nn.softplus(-2 * raw))
    return jnp.tanh(raw), jnp.sum(log_normal - log_slope, axis=-1)
