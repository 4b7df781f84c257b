"""Editors and type checkers know the constructors that are generated when the package is imported."""

import ast
import inspect
import runpy
from pathlib import Path

import pytest

from rafm import RaFMClassifier, RaFMRanker, RaFMRegressor
from rafm.options import declared_options

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src" / "rafm" / "estimators" / "signatures.pyi"
CLASSES = {"ClassifierSignature": RaFMClassifier, "RegressorSignature": RaFMRegressor, "RankerSignature": RaFMRanker}


def test_the_stub_is_what_its_program_writes(capsys):
    runpy.run_path(str(ROOT / ".ci" / "stub.py"), run_name="__main__")
    assert capsys.readouterr().out == STUB.read_text(), "run: python .ci/stub.py > src/rafm/estimators/signatures.pyi"


@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_has_every_parameter_with_its_default_and_a_type(name):
    (declared,) = (node for node in ast.parse(STUB.read_text()).body if getattr(node, "name", "") == name)
    arguments = declared.body[0].args
    given = [*zip(arguments.args[1:], arguments.defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    defaults = {one.arg: ast.literal_eval(default) for one, default in given}
    assert defaults == {one.name: one.default for one in inspect.signature(CLASSES[name]).parameters.values()}
    assert "random_state" in defaults
    assert all(one.annotation is not None for one, _ in given)
    assert len(defaults) >= len([*declared_options()]) - 2  # the classifier has neither loss nor items
