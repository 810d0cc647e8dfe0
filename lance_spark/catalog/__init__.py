"""The directory namespace as decisions: names, rows of ``__manifest``, changes to them, directories. No I/O."""
