from hypothesis import settings

from support.generated import THOROUGH

settings.register_profile(THOROUGH)
