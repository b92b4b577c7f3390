"""Every hook point that the instrumentors name, against every supported release of verl."""

import ast

import pytest

from contract.compatibility import DOCUMENT, render, targets
from contract.wheels import VERSIONS, unpacked
from verl_otel.doctor.hook_points import find, state, tree
from verl_otel.instrumentors import workers


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "target"), targets(), ids=lambda one: getattr(one, "attribute", one))
def test_hook_point(version, name, target):
    found = state(unpacked(version), target)
    if target.expected_in(version):
        assert found == "there", f"{name} needs {target.module}.{target.attribute} in verl {version}"
    else:
        assert found in ("absent", "no module"), f"{target.attribute} is in verl {version}: widen its range"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_mark_of_registered_methods_is_what_the_workers_look_for(version):
    module = tree(unpacked(version), "verl.single_controller.base.decorator")
    marks = [
        node.value.value
        for node in module.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "MAGIC_ATTR"
    ]
    assert marks == [workers._MAGIC]


@pytest.mark.parametrize("version", VERSIONS)
def test_worker_modules_register_methods(version):
    """At least one of the modules whose classes are wrapped at import is there, with registered methods."""
    registered = [
        node.name
        for module in workers._MODULES
        if (found := tree(unpacked(version), module)) is not None
        for node in ast.walk(found)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any("register" in ast.dump(decorator) for decorator in node.decorator_list)
    ]
    assert {"update_actor", "compute_log_prob", "update_weights"} & set(registered)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_timer_ends_in_the_one_that_is_replaced(version):
    """nvtx's and mstx's timers import `_timer` inside, so replacing it reaches them however they were imported."""
    for module in ("nvtx_profile", "mstx_profile"):
        function = find(tree(unpacked(version), f"verl.utils.profiler.{module}"), "marked_timer")
        imports = [node for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
        at_top = [
            node
            for node in tree(unpacked(version), f"verl.utils.profiler.{module}").body
            if isinstance(node, ast.ImportFrom)
        ]
        assert any(alias.name == "_timer" for node in imports for alias in node.names)
        assert not any(alias.name == "_timer" for node in at_top for alias in node.names)


@pytest.mark.parametrize("version", ["0.9.0", "0.9.1"])
def test_verl_loads_its_plugins_by_the_group_we_are_in(version):
    source = ast.unparse(tree(unpacked(version), "verl"))
    assert "verl.plugins" in source


def test_the_compatibility_page_is_what_the_tables_say():
    assert DOCUMENT.read_text() == render(), "run `make compatibility`"
