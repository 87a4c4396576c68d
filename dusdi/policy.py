"""A small policy file: what acting needs, and nothing else.

`fold_actor` turns a trained actor into a few plain layers, with the normaliser and learned gains
multiplied in. `forward` computes them, with NumPy or JAX alike. A file holds the layers and a
description: skills, factors, world, provenance. One reads it without any of what learning needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dusdi.arrays import read_arrays, write_arrays
from dusdi.normalise import CLIP, EPSILON

Policy = dict[str, np.ndarray]  # arrays by name
WHAT = "a policy file"
ADVICE = "resume its run with --resume to have it written again"


def fold_actor(agent: Any, params: Any, normaliser: Any) -> Policy:
    """The layers of a soft actor-critic's actor, which is a sum of E networks.

    Returns arrays, with H units in the first hidden layer:
      low, high: [D], observation entries are clipped to these;
      state_kernel [E, D, H], state_bias [E, H]: the first layer's weights of the observation;
      skill_columns [E, z]: the entries of the encoded skill that each network sees;
      skill_kernel, film_kernel [E, z, H]: their weights, added to and multiplied with that layer;
      hidden_kernel_i [E, H, H'], hidden_bias_i [E, H']: further layers;
      output_kernel [E, H, A], output_bias [A]: the last layer, summed over the networks.
    """
    layers = params["params"]["networks"]
    kernel = np.asarray(layers["state"]["kernel"], np.float64).swapaxes(0, 1)  # [E, D, H]
    if "gain" in layers["state"]:
        kernel = kernel * np.asarray(layers["state"]["gain"], np.float64).swapaxes(0, 1)
    bias = np.asarray(layers["state"]["bias"], np.float64)[:, 0]
    folded = _fold_normaliser(kernel, bias, normaliser, agent.networks.normalise_observations)
    if "skill" in layers:
        folded |= _skill_layers(layers, agent)
    hidden = [name for name in layers if name.startswith("hidden_")]
    for i in range(len(hidden)):
        folded[f"hidden_kernel_{i}"] = layers[f"hidden_{i}"]["kernel"]
        folded[f"hidden_bias_{i}"] = layers[f"hidden_{i}"]["bias"][:, 0]
    actions = agent.action_size  # what follows are deviations, which mean actions don't need
    folded["output_kernel"] = layers["output"]["kernel"][..., :actions]
    folded["output_bias"] = layers["output"]["bias"].sum(0)[0, :actions]
    return {name: _compact(array) for name, array in folded.items()}


def _compact(array: Any) -> np.ndarray:
    array = np.asarray(array)
    kind = np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32
    return np.ascontiguousarray(array, kind)


def _fold_normaliser(kernel: Any, bias: Any, normaliser: Any, used: bool) -> dict[str, Any]:
    """The first layer's weights of plain observations, and the range these are clipped to."""
    size = kernel.shape[1]
    if not used:
        unbounded = np.full(size, np.inf)
        return {"low": -unbounded, "high": unbounded, "state_kernel": kernel, "state_bias": bias}
    mean = np.asarray(normaliser.mean, np.float64)
    deviation = np.sqrt(np.asarray(normaliser.variance, np.float64) + EPSILON)
    return {
        "low": mean - CLIP * deviation,
        "high": mean + CLIP * deviation,
        "state_kernel": kernel / deviation[:, None],
        "state_bias": bias - (mean / deviation) @ kernel,
    }


def _skill_layers(layers: Any, agent: Any) -> dict[str, Any]:
    """The weights of the encoded skill, [E, z, H] each."""
    from dusdi.nets import masked_columns

    mask = agent.actor_skill_mask
    if mask is None:  # all networks see all of it, and weights lie side by side
        columns = np.arange(agent.skill_space.size)[None]
        visible = np.ones_like(columns, bool)
        arrange = lambda kernel: np.asarray(kernel).swapaxes(0, 1)  # noqa: E731
    else:
        columns, visible = masked_columns(mask)
        arrange = np.asarray
    found = {"skill_columns": columns}
    for name in ("skill", "film"):
        if name in layers:
            kernel = arrange(layers[name]["kernel"])
            found[f"{name}_kernel"] = np.where(visible[..., None], kernel, 0.0)
    return found


def fold_mlp(params: Any, normaliser: Any, used: bool) -> Policy:
    """The layers of a high-level policy, an MLP with tanh: kernel_i [in, out], bias_i [out]."""
    layers = params["params"]
    first = layers["Dense_0"]
    kernel = np.asarray(first["kernel"], np.float64)[None]
    bias = np.asarray(first["bias"], np.float64)[None]
    folded = _fold_normaliser(kernel, bias, normaliser, used)
    named = {
        "low": folded["low"],
        "high": folded["high"],
        "kernel_0": folded["state_kernel"][0],
        "bias_0": folded["state_bias"][0],
    }
    for i in range(1, len(layers)):
        named[f"kernel_{i}"] = layers[f"Dense_{i}"]["kernel"]
        named[f"bias_{i}"] = layers[f"Dense_{i}"]["bias"]
    return {name: _compact(array) for name, array in named.items()}


def forward(policy: Mapping[str, Any], observation: Any, skill: Any, xp: Any) -> Any:
    """Actions [B, A] for observations [B, D] and encoded skills [B, Z], by numpy or jax.numpy."""
    x = xp.clip(observation, policy["low"], policy["high"])
    h = x @ policy["state_kernel"] + policy["state_bias"][:, None]  # [E, B, H]
    if "skill_kernel" in policy:
        z = xp.swapaxes(skill[:, policy["skill_columns"]], 0, 1)  # [E, B, z]
        h = h + z @ policy["skill_kernel"]
        if "film_kernel" in policy:
            h = h * (1 + z @ policy["film_kernel"])
    h = xp.maximum(h, 0)
    i = 0
    while f"hidden_kernel_{i}" in policy:
        h = h @ policy[f"hidden_kernel_{i}"] + policy[f"hidden_bias_{i}"][:, None]
        h = xp.maximum(h, 0)
        i += 1
    return xp.tanh((h @ policy["output_kernel"]).sum(0) + policy["output_bias"])


def forward_mlp(policy: Mapping[str, Any], observation: Any, xp: Any) -> Any:
    """What a high-level policy says of the components, [B, Z], for observations [B, D]."""
    h = xp.clip(observation, policy["low"], policy["high"])
    last = sum(name.startswith("kernel_") for name in policy) - 1
    for i in range(last + 1):
        h = h @ policy[f"kernel_{i}"] + policy[f"bias_{i}"]
        h = h if i == last else xp.tanh(h)
    return h


# --- files ---


def policy_name(seeds: int, seed: int) -> str:
    """The name of a policy's file in a run of so many seeds."""
    return "policy.safetensors" if seeds == 1 else f"policy-seed{seed}.safetensors"


def write_policy(path: Path, policy: Policy, description: Mapping[str, Any]) -> None:
    """Writes a policy file; it appears once it is whole."""
    write_arrays(path, policy, description)


def read_description(path: Path) -> dict[str, Any]:
    """What a policy file says of itself; no arrays are read."""
    return read_arrays(path, WHAT, ADVICE, whole=False)[0]


def read_policy(path: Path) -> tuple[dict[str, Any], Policy]:
    """The description and the arrays in a policy file."""
    return read_arrays(path, WHAT, ADVICE)
