"""The only code that says ``lance`` or ``fsspec``."""
