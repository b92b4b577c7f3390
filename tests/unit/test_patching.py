"""Replacing and restoring: the identical object comes back, whatever kind of attribute it was."""

import sys
import types

import pytest

from verl_otel.guard import failures
from verl_otel.patching import Patches, patches


def twice(original):
    def wrapper(*args, **kwargs):
        return 2 * original(*args, **kwargs)

    return wrapper


class Base:
    def inherited(self):
        return 1

    @classmethod
    def of_class(cls):
        return 2 if cls is Base else 20

    @staticmethod
    def static():
        return 3

    def method(self):
        return 4


class Child(Base):
    pass


@pytest.fixture
def own():
    made = Patches("test")
    made.start()
    yield made
    made.undo()


@pytest.mark.parametrize("name", ["inherited", "of_class", "static", "method"])
def test_a_wrapped_attribute_works_as_before_and_comes_back_identical(own, name):
    before = dict(vars(Base))
    values = getattr(Base(), name)(), getattr(Child(), name)()
    assert own.wrap(Base, name, twice)
    assert (getattr(Base(), name)(), getattr(Child(), name)()) == tuple(2 * value for value in values)
    own.undo()
    assert dict(vars(Base)) == before
    assert all(vars(Base)[key] is before[key] for key in before)


def test_an_inherited_attribute_is_deleted_again(own):
    own.wrap(Child, "method", twice)
    assert (Child().method(), Base().method()) == (8, 4)
    own.undo()
    assert "method" not in vars(Child)


def test_a_copy_by_value_of_what_is_wrapped_is_put_back_too(own):
    home, copy = types.SimpleNamespace(f=len), types.SimpleNamespace()
    own.wrap(home, "f", twice)
    copy.f = home.f  # as `from home import f` does
    assert own.wrap(copy, "f", twice)
    assert (home.f("ab"), copy.f("ab")) == (4, 4)
    own.undo()
    assert (home.f, copy.f) == (len, len)


def test_a_missing_attribute_changes_nothing(own):
    before = dict(vars(Base))
    assert own.wrap(Base, "absent", twice) is False
    assert dict(vars(Base)) == before


def test_what_someone_wrapped_after_us_stays(own):
    module = types.ModuleType("victim")
    module.f = original = lambda: 1
    own.wrap(module, "f", twice)
    theirs = twice(module.f)
    module.f = theirs
    own.undo()
    assert module.f is theirs
    assert module.f is not original


def test_several_layers_of_ours_are_undone_in_reverse(own):
    module = types.ModuleType("victim")
    module.f = original = lambda: 1
    own.wrap(module, "f", twice)
    own.wrap(module, "f", twice)
    assert module.f() == 4
    own.undo()
    assert module.f is original


def test_a_hook_waits_for_the_import_and_runs_once(own, tmp_path, monkeypatch):
    (tmp_path / "vo_victim_a.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    own.when_imported("vo_victim_a", lambda module: seen.append(module.value))
    assert seen == []
    import vo_victim_a

    assert seen == [1]
    own.when_imported("vo_victim_a", lambda module: seen.append(module))
    assert seen == [1, vo_victim_a]


def test_a_failing_hook_is_counted_and_the_import_succeeds(own, tmp_path, monkeypatch):
    (tmp_path / "vo_victim_b.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    own.when_imported("vo_victim_b", lambda module: module.absent)
    import vo_victim_b

    assert vo_victim_b.value == 1
    assert failures.counts() == {"patch vo_victim_b": 1}


def test_a_withdrawn_hook_does_nothing(own, tmp_path, monkeypatch):
    (tmp_path / "vo_victim_c.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    own.when_imported("vo_victim_c", seen.append)
    own.undo()
    own.start()
    __import__("vo_victim_c")
    assert seen == []
    del sys.modules["vo_victim_c"]


def test_patches_are_pickled_as_their_name():
    import pickle

    mine = patches("test_pickling")
    assert pickle.loads(pickle.dumps(mine)) is mine
