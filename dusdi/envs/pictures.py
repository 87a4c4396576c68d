"""Offscreen pictures of MuJoCo models, by EGL or OSMesa."""

from __future__ import annotations

import atexit
import ctypes.util
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from dusdi.errors import UsageError

SIZE = 480
#: Packages and files of other libraries that draw by OpenGL.
DRAWING_PARTS = {"OpenGL", "glfw", "egl", "osmesa", "gl_context.py", "mujoco_rendering.py"}
DRAWING_ADVICE = (
    "install EGL or OSMesa (Debian: apt install libegl1 libgl1-mesa-dri, or libosmesa6) "
    "and choose it by MUJOCO_GL=egl or MUJOCO_GL=osmesa"
)


def choose_opengl() -> None:
    """Makes MuJoCo draw offscreen where there is no display; must be called before its import."""
    no_display = sys.platform == "linux" and not os.environ.get("DISPLAY")
    if no_display and "MUJOCO_GL" not in os.environ:
        found = [name for name in ("EGL", "OSMesa") if ctypes.util.find_library(name)]
        os.environ["MUJOCO_GL"] = found[0].lower() if found else "disable"


def drawing_hint(error: Exception) -> str:
    """What to do about an exception from drawing, if it comes from OpenGL; follows its message."""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    is_opengl = any(DRAWING_PARTS & set(file.parts) for file in files)
    return f"; if OpenGL is missing here, {DRAWING_ADVICE}" if is_opengl else ""


def check_drawable(env: gymnasium.Env) -> None:
    """Raises a `UsageError` if an environment on MuJoCo is to be drawn where nothing can draw."""
    if os.environ.get("MUJOCO_GL") == "disable" and hasattr(env.unwrapped, "mujoco_renderer"):
        raise UsageError(f"there is nothing here that MuJoCo could draw with; {DRAWING_ADVICE}")


class Camera:
    """Takes pictures of a model from one of its cameras, in a graphics context of its own."""

    def __init__(self, model: Any, camera: str, *, width: int = SIZE, height: int = SIZE):
        import mujoco

        self._model = model
        self._name = camera
        self._data = mujoco.MjData(model)
        self._renderer = _make_renderer(model, height, width)
        # The context can't be freed any more when Python deletes objects at its exit.
        atexit.register(self.close)

    def picture(self, qpos: np.ndarray, highlighted: Iterable[str] = ()) -> np.ndarray:
        """The model with joints at qpos and some geoms glowing, uint8 [height, width, 3]."""
        import mujoco

        self._data.qpos[:] = qpos
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, self._name)
        scene = self._renderer.scene
        glowing = {self._model.geom(name).id for name in highlighted}
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
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"MuJoCo can't draw here ({what}); {DRAWING_ADVICE}") from error
