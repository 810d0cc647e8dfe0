"""What an interactive Python of the tests runs first, as PYTHONSTARTUP says."""

__import__("support.fresh_names").fresh_names.begin(globals())
