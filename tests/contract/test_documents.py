"""The documents that are made from code say what the code says."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_semconv_says(maker):
    assert (DOCS / "reference.md").read_text() == maker.reference(), "run `make reference`"


def test_the_configuration_is_what_the_settings_say(maker):
    assert (DOCS / "configuration.md").read_text() == maker.configuration(), "run `make reference`"
