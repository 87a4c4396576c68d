"""The networks: one kind of MLP, many of them at once.

Actor, critics and discriminators are all an `EnsembleMLP`: E independent networks of equal shape that see the
same input through masks of their own, computed as batched matrix products. With `gate`, the skill also
multiplies the first hidden layer (docs/experiments.md says why that matters).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

LOG_2PI = math.log(2 * math.pi)
EACH_ONCE: dict[str, Any] = dict(unique_indices=True, mode="promise_in_bounds")
FIRST_LAYER = "state"  # of a network, which sees its inputs


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
    return jnp.dot(
        a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32
    )


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

    What all share may come in parts, as if they were concatenated; no gradient is computed by a part that needs none. With
    `seen` [E, n], each layer sees only these n of the entries, and has no more weights than that.

    Attributes:
      members: E.
      features: outputs of each layer.
      fan_in: inputs that the initial weights reckon with; default: all of them.
      use_bias: whether the layers have a bias.
      gain: start of learned gains on the inputs of each member; 0: none.
      total: whether to sum the outputs of all members.
      half: whether to read bfloat16 numbers in the products that all members share, if the processor knows them.
    """

    members: int
    features: int
    fan_in: int | None = None
    use_bias: bool = True
    gain: float = 0.0
    total: bool = False
    half: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, *more: jax.Array, seen: jax.Array | None = None) -> jax.Array:
        if seen is not None:
            x, more = jnp.concatenate([x, *more], axis=-1)[:, seen].swapaxes(0, 1), ()
        inputs, shared = sum(part.shape[-1] for part in (x, *more)), x.ndim == 2
        bound = 1 / math.sqrt(max(self.fan_in or inputs, 1))
        # What all members share is read once, by one big matrix product, for which the weights lie side by side.
        shape = (
            (inputs, self.members, self.features)
            if shared
            else (self.members, inputs, self.features)
        )
        kernel = self.param(
            "kernel", lambda key: jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        )
        if self.gain:
            # Adam grows what a member needs and leaves the rest small: a soft choice of inputs.
            kernel = kernel * self.param(
                "gain", nn.initializers.constant(self.gain), (*shape[:2], 1)
            )
        multiply = half_matmul if self.half and knows_bfloat16() else jnp.matmul
        if self.total:
            product = multiply(
                x.swapaxes(0, 1).reshape(x.shape[1], -1), kernel.reshape(-1, self.features)
            )
        elif shared:
            ends = np.cumsum([part.shape[-1] for part in (x, *more)])[:-1]
            blocks = jnp.split(kernel.reshape(inputs, -1), ends)
            flat = functools.reduce(
                jnp.add,
                (multiply(part, block) for part, block in zip((x, *more), blocks, strict=True)),
            )
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
      total: whether to sum the outputs of all members.
      half: whether to read bfloat16 numbers in the products that all members share, if the processor knows them.
    """

    members: int
    hidden: tuple[int, ...]
    outputs: int
    gate: bool = False
    input_gain: float = 0.0
    total: bool = False
    half: bool = False

    @nn.compact
    def __call__(
        self,
        *x: jax.Array,
        skill: jax.Array | None = None,
        x_mask: np.ndarray | None = None,
        skill_mask: np.ndarray | None = None,
        seen: jax.Array | None = None,
    ) -> jax.Array:
        if x_mask is not None:
            x = (pick(jnp.concatenate(x, axis=-1), x_mask),)
        output = EnsembleDense(
            self.members,
            self.outputs,
            total=self.total,
            half=self.half and self.total,
            name="output",
        )
        if not self.hidden:
            return output(*x)
        width, inputs = self.hidden[0], sum(part.shape[-1] for part in x)
        state = EnsembleDense(
            self.members, width, gain=self.input_gain, half=self.half, name=FIRST_LAYER
        )
        h = state(*x, seen=seen)
        if skill is not None and skill.shape[-1]:
            skill = skill if skill_mask is None else pick(skill, skill_mask)
            h += EnsembleDense(self.members, width, inputs + skill.shape[-1], False, name="skill")(
                skill
            )
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
    half: bool
    free_std: bool

    @nn.compact
    def __call__(
        self,
        observation: jax.Array,
        *,
        skill: jax.Array,
        skill_mask: np.ndarray | None,
        seen: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        outputs = self.actions * (1 if self.free_std else 2)
        networks = EnsembleMLP(
            self.members,
            self.hidden,
            outputs,
            self.gate,
            self.input_gain,
            True,
            self.half,
            name="networks",
        )
        out = networks(observation, skill=skill, skill_mask=skill_mask, seen=seen)
        if not self.free_std:
            mean, log_std = jnp.split(out, 2, axis=-1)
            return mean, log_std
        return out, jnp.broadcast_to(
            self.param("log_std", nn.initializers.zeros, (self.actions,)), out.shape
        )


def largest_gains(params: Any, limit: int) -> jax.Array:
    """The inputs with the largest gains of each network, in ascending order, [E, limit]."""
    (gain,) = (
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        if _name(path).endswith("gain")
    )
    return jnp.sort(jax.lax.top_k(jnp.abs(gain[..., 0].T), limit)[1])


def narrow(tree: Any, seen: jax.Array) -> Any:
    """Parameters of networks that see all inputs, or what an optimiser remembers of them, for ones that see some, [E, n]."""
    members = np.arange(len(seen))[:, None]
    return _map_first_layers(lambda leaf: leaf.at[seen, members].get(**EACH_ONCE), tree)


def widen(tree: Any, seen: jax.Array, inputs: int) -> Any:
    """What `narrow` got, with zeros for what it left out, which makes no difference to what the networks compute."""
    members = np.arange(len(seen))[:, None]

    def fill(leaf: jax.Array) -> jax.Array:
        return (
            jnp.zeros((inputs, len(seen), leaf.shape[-1])).at[seen, members].set(leaf, **EACH_ONCE)
        )

    return _map_first_layers(fill, tree)


def _map_first_layers(function: Callable[[jax.Array], jax.Array], tree: Any) -> Any:
    """Applies a function to kernels and gains of the layers that see a network's inputs."""
    ours = (f"{FIRST_LAYER}/kernel", f"{FIRST_LAYER}/gain")
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: function(leaf) if _name(path).endswith(ours) else leaf, tree
    )


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


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


def squashed_gaussian(
    key: jax.Array, mean: jax.Array, log_std: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A sample of tanh(N(mean, std)) [B, A] and its log density [B]."""
    noise = jax.random.normal(key, mean.shape)
    raw = mean + jnp.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * LOG_2PI
    # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), which does not underflow
    log_slope = 2 * (math.log(2.0) - raw - jax.nn.softplus(-2 * raw))
    return jnp.tanh(raw), jnp.sum(log_normal - log_slope, axis=-1)
