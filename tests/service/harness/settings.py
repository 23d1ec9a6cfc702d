"""Settings for tests, given by field name without the section."""

import dataclasses

from delayed_tracker.service.settings.settings import Settings


def settings_of(**fields) -> Settings:
    """Return the default settings with these fields replaced, whatever section they are in."""
    defaults = Settings()
    changed = {}
    for section in dataclasses.fields(Settings):
        value = getattr(defaults, section.name)
        ours = {field.name for field in dataclasses.fields(value)} & fields.keys()
        changed[section.name] = dataclasses.replace(value, **{name: fields.pop(name) for name in ours})
    assert not fields, f"no such settings: {fields}"
    return Settings(**changed)
