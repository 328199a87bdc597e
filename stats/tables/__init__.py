"""Tables as plain records: ``table`` is the type, every other module makes one kind."""
