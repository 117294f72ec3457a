"""The version of kinband, which saved states and results carry."""

__version__ = "0.1.0"
