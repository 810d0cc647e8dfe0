"""The catalog beside pylance's ``DirectoryNamespace``."""
