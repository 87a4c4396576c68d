"""Offscreen pictures of MuJoCo models, by EGL or OSMesa."""

from __future__ import annotations

import atexit
from collections.abc import Iterable
from typing import Any

import numpy as np

from dusdi.errors import UsageError

SIZE = 480


class Camera:
    """Takes pictures of a model from one of its cameras, in a graphics context of its own."""

    def __init__(self, model: Any, camera: str, *, width: int = SIZE, height: int = SIZE):
        import mujoco

        self._model, self._name, self._data = model, camera, mujoco.MjData(model)
        self._renderer = _make_renderer(model, height, width)
        atexit.register(self.close)  # the context can't be freed once Python is half gone

    def picture(self, qpos: np.ndarray, lit: Iterable[str] = ()) -> np.ndarray:
        """The model with joints at qpos and some geoms lit up, uint8 [height, width, 3]."""
        import mujoco

        self._data.qpos[:] = qpos
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, self._name)
        scene, glowing = self._renderer.scene, {self._model.geom(name).id for name in lit}
        for geom in scene.geoms[: scene.ngeom]:
            if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM and geom.objid in glowing:
                geom.emission = 1.0
        return self._renderer.render()

    def close(self) -> None:
        atexit.unregister(self.close)
        self._renderer.close()


def _make_renderer(model: Any, height: int, width: int) -> Any:
    import mujoco

    try:
        return mujoco.Renderer(model, height, width)
    except Exception as error:
        raise UsageError(
            f"MuJoCo can't draw here ({type(error).__name__}: {error}); install EGL or OSMesa "
            "(Debian: apt install libegl1 libgl1-mesa-dri, or libosmesa6) and choose it by MUJOCO_GL=egl or MUJOCO_GL=osmesa"
        ) from error
