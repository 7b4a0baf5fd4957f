# SPDX-License-Identifier: MIT
"""numba-cuda's tests use a fixture that its wheel lacks. It chooses what to keep of a failed file check."""
import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    request.cls._dump_failed_filechecks = False
