"""What torch's operations return together has the fields that the plugin takes from the items of a tuple."""

from __future__ import annotations

import pytest
import torch

from spmd_mypy.hooks.fields import FIELDS


@pytest.mark.parametrize(("name", "fields"), FIELDS.items(), ids=FIELDS)
def test_fields_stand_in_the_order_of_the_tuple(name: str, fields: str) -> None:
    names = fields.split()
    outputs = tuple(torch.tensor(float(at)) for at in range(len(names)))
    result = getattr(torch.return_types, name.replace("_linalg", "linalg"))(outputs)
    assert [getattr(result, field) for field in names] == list(outputs)
