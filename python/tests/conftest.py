"""What the tests share."""

import pytest

import esker


@pytest.fixture
def db(tmp_path):
    with esker.open(str(tmp_path / "lab.esker"), create=True, durability="relaxed") as db:
        yield db
