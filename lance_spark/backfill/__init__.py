"""Values for new and existing columns: how a call is read, what each fragment gets, and what of it is still good."""
