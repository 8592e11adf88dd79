"""The reference model that the embedder learns from: what it says of a picture, and what to do without it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from fakes import shapes_on_noise

from panorama.errors import MissingExtra, ModelError
from panorama.models.training.teacher import LiteTeacher, make_teacher, teacher_digest

PLACE = Path("teachers") / "mobilenet_v1_embedding.tflite"
PLAN = {"teacher": {"data": "footage", "path": str(PLACE)}}


@pytest.mark.footage
def test_the_features_are_those_that_the_model_averages_itself(footage: Path) -> None:
    """Its own mean is of 8 bits, ours of floats: they differ by its rounding, and by no more."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(footage / PLACE))
    interpreter.allocate_tensors()
    given, told = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero = told["quantization"]
    teacher = make_teacher(PLAN, {"footage": footage})
    for seed in range(3):
        picture = shapes_on_noise(seed, 224, 224)[0]
        pooled, cells = teacher.features(picture)
        interpreter.set_tensor(given["index"], picture[None])
        interpreter.invoke()
        own = (interpreter.get_tensor(told["index"]).ravel().astype(np.float32) - zero) * scale
        assert own.max() > 10 * scale
        np.testing.assert_allclose(pooled, own, atol=scale * 0.51)
        assert cells.shape == (4, 4, teacher.dim)
        np.testing.assert_allclose(cells.mean((0, 1)), pooled, atol=1e-4)


@pytest.mark.footage
def test_a_picture_of_any_size_is_resized_to_what_the_model_takes(footage: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    teacher = make_teacher(PLAN, {"footage": footage})
    plain = np.full((90, 150, 3), (200, 120, 40), np.uint8)
    at_its_size = np.full((224, 224, 3), (200, 120, 40), np.uint8)
    np.testing.assert_array_equal(teacher.features(plain)[0], teacher.features(at_its_size)[0])


def test_without_its_package_or_its_file_the_reference_model_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "ai_edge_litert.interpreter", None)
        with pytest.raises(MissingExtra, match="needs ai-edge-litert: pip install ai-edge-litert"):
            LiteTeacher(tmp_path / PLACE)
    pytest.importorskip("ai_edge_litert")
    assert teacher_digest(PLAN, {"footage": tmp_path}) == ""
    with pytest.raises(ModelError, match=r"no teacher at .*mobilenet_v1_embedding\.tflite; the recipe's"):
        make_teacher(PLAN, {"footage": tmp_path})
