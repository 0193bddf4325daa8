from hypothesis import settings

from support.generated import QUICK, THOROUGH

# The first case of a property may meet a busy machine.
settings.register_profile(QUICK, deadline=None)
settings.register_profile(THOROUGH, deadline=None)
settings.load_profile(QUICK)
