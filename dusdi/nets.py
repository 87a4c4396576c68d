"""The networks: one kind of MLP, many of them at once.

Actor, critics and discriminators are all an `EnsembleMLP`: E independent networks of equal shape that see the
same input through masks of their own, computed as batched matrix products. With `gate`, the skill also
multiplies the first hidden layer (docs/experiments.md says why that matters).
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

LOG_2PI = math.log(2 * math.pi)
EACH_ONCE: dict[str, Any] = dict(unique_indices=True, mode="promise_in_bounds")  # gradients need not be added up then


@functools.cache
def knows_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 numbers itself. Where it does not, or does not say so, float32 is faster."""
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


@jax.custom_vjp
def half_matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """a @ b of float32 matrices, read as bfloat16 and added up in float32: twice as fast on processors that know bfloat16."""
    return jnp.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


def _half_forward(a, b):
    return half_matmul(a, b), (a, b)


def _half_backward(saved, gradient):
    # XLA is slow at bfloat16 products with a transposed matrix, so gradients stay in float32; and at products with the first
    # matrix transposed, unless that was done before.
    a, b = saved
    return gradient @ b.T, jax.lax.optimization_barrier(a.T) @ gradient


half_matmul.defvjp(_half_forward, _half_backward)


class EnsembleDense(nn.Module):
    """E dense layers: x [B, in], the same for all, or [E, B, in] -> [E, B, features]; or their sum, [B, features].

    What all share may come in parts, as if they were concatenated; no gradient is computed by a part that needs none.

    Attributes:
      members: E.
      features: outputs of each layer.
      fan_in: inputs that the initial weights reckon with; default: all of them.
      use_bias: whether the layers have a bias.
      gain: start of learned gains on the inputs of each member; 0: none.
      limit: how many inputs each member sees, those with the largest gains; 0: all.
      total: whether to sum the outputs of all members.
      half: whether to read bfloat16 numbers in the products that all members share, if the processor knows them.
    """

    members: int
    features: int
    fan_in: int | None = None
    use_bias: bool = True
    gain: float = 0.0
    limit: int = 0
    total: bool = False
    half: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, *more: jax.Array) -> jax.Array:
        inputs, shared = sum(part.shape[-1] for part in (x, *more)), x.ndim == 2
        bound = 1 / math.sqrt(max(self.fan_in or inputs, 1))
        # What all members share is read once, by one big matrix product, for which the weights lie side by side.
        shape = (inputs, self.members, self.features) if shared else (self.members, inputs, self.features)
        kernel = self.param("kernel", lambda key: jax.random.uniform(key, shape, minval=-bound, maxval=bound))
        limited = bool(self.gain) and 0 < self.limit < inputs
        if self.gain:
            # Adam grows what a member needs and leaves the rest small: a soft choice of inputs.
            gain = self.param("gain", nn.initializers.constant(self.gain), (*shape[:2], 1))
            if limited:
                seen = jax.lax.top_k(magnitudes(gain), self.limit)[1]  # [E, limit]
                kernel, gain = (rows.at[seen, np.arange(self.members)[:, None]].get(**EACH_ONCE) for rows in (kernel, gain))
            kernel = kernel * gain
        multiply = half_matmul if self.half and knows_bfloat16() else jnp.matmul
        if limited:
            product = jnp.einsum("eib,eio->ebo", jnp.concatenate([x, *more], axis=-1).T[seen], kernel)
        elif self.total:
            product = multiply(x.swapaxes(0, 1).reshape(x.shape[1], -1), kernel.reshape(-1, self.features))
        elif shared:
            ends = np.cumsum([part.shape[-1] for part in (x, *more)])[:-1]
            blocks = jnp.split(kernel.reshape(inputs, -1), ends)
            flat = functools.reduce(jnp.add, (multiply(part, block) for part, block in zip((x, *more), blocks, strict=True)))
            product = flat.reshape(len(x), self.members, self.features).swapaxes(0, 1)
        else:
            product = jnp.einsum("ebi,eio->ebo", x, kernel)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, (self.members, 1, self.features))
            product += bias.sum(0) if self.total else bias
        return product


class EnsembleMLP(nn.Module):
    """E independent MLPs with ReLUs: parts of x [B, in] and the encoded skill [B, Z] -> [E, B, outputs] or its sum over E.

    Attributes:
      gate: whether the skill scales the first hidden layer.
      input_gain: start of learned gains on x; 0: none.
      input_limit: how many entries of x each member sees, those with the largest gains; 0: all.
      total: whether to sum the outputs of all members.
      half: whether to read bfloat16 numbers in the products that all members share, if the processor knows them.
    """

    members: int
    hidden: tuple[int, ...]
    outputs: int
    gate: bool = False
    input_gain: float = 0.0
    input_limit: int = 0
    total: bool = False
    half: bool = False

    @nn.compact
    def __call__(
        self,
        *x: jax.Array,
        skill: jax.Array | None = None,
        x_mask: np.ndarray | None = None,
        skill_mask: np.ndarray | None = None,
    ) -> jax.Array:
        if x_mask is not None:
            x = (pick(jnp.concatenate(x, axis=-1), x_mask),)
        output = EnsembleDense(self.members, self.outputs, total=self.total, half=self.half and self.total, name="output")
        if not self.hidden:
            return output(*x)
        width, inputs = self.hidden[0], sum(part.shape[-1] for part in x)
        state = EnsembleDense(self.members, width, gain=self.input_gain, limit=self.input_limit, half=self.half, name="state")
        h = state(*x)
        if skill is not None and skill.shape[-1]:
            skill = skill if skill_mask is None else pick(skill, skill_mask)
            h += EnsembleDense(self.members, width, inputs + skill.shape[-1], False, name="skill")(skill)
            if self.gate:
                # FiLM: each skill sees its own scaling of the same features; entries near one in size.
                h *= 1 + EnsembleDense(self.members, width, 1, False, name="gate")(skill)
        h = nn.relu(h)
        for i, width in enumerate(self.hidden[1:]):
            h = nn.relu(EnsembleDense(self.members, width, name=f"hidden_{i}")(h))
        return output(h)


class Actor(nn.Module):
    """The sum of E networks as mean and log standard deviation of a Gaussian, each [B, actions]; the latter is not bounded yet.

    Attributes:
      free_std: whether the deviations are parameters of their own that depend on no input.
    """

    members: int
    hidden: tuple[int, ...]
    actions: int
    gate: bool
    input_gain: float
    input_limit: int
    half: bool
    free_std: bool

    @nn.compact
    def __call__(self, observation: jax.Array, *, skill: jax.Array, skill_mask: np.ndarray | None) -> tuple[jax.Array, jax.Array]:
        outputs = self.actions * (1 if self.free_std else 2)
        networks = EnsembleMLP(
            self.members, self.hidden, outputs, self.gate, self.input_gain, self.input_limit, True, self.half, name="networks"
        )
        out = networks(observation, skill=skill, skill_mask=skill_mask)
        if not self.free_std:
            mean, log_std = jnp.split(out, 2, axis=-1)
            return mean, log_std
        return out, jnp.broadcast_to(self.param("log_std", nn.initializers.zeros, (self.actions,)), out.shape)


def magnitudes(gain: jax.Array) -> jax.Array:
    """The sizes of gains [in, E, 1] for each member, [E, in]."""
    return jnp.abs(jax.lax.stop_gradient(gain)[..., 0].T)


def drop_inputs(params: Any, limit: int, *alike: Any) -> tuple[Any, ...]:
    """Parameters of networks that see all inputs, and trees alike, with zeros for all but each member's `limit` largest gains.

    What has no gain makes no difference, so a network that sees all computes the same as one that is limited.
    """

    def is_gain(path) -> bool:
        return jax.tree_util.keystr(path, simple=True, separator="/").endswith("gain")

    (gain,) = (leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params) if is_gain(path))
    sizes = magnitudes(gain)
    if limit >= sizes.shape[1]:
        return params, *alike
    least = jax.lax.top_k(sizes, limit)[0][:, -1:]
    kept = (sizes >= least).T[..., None]
    return jax.tree_util.tree_map_with_path(lambda path, leaf: leaf * kept if is_gain(path) else leaf, (params, *alike))


def pick(x: jax.Array, mask: np.ndarray) -> jax.Array:
    """What members see of x [B, in] through a mask [E, in]: [E, B, most that any sees]; who sees less sees zeros in the end."""
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
