"""Settings of the suite. HYPOTHESIS_PROFILE=long draws new and many more examples, brief few."""

import os

from hypothesis import HealthCheck, settings

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("ci", max_examples=20, derandomize=True, **QUIET)
settings.register_profile("brief", max_examples=8, derandomize=True, **QUIET)
settings.register_profile("long", max_examples=500, database=None, **QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
