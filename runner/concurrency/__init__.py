"""How many requests are sent at a time: fixed by the config, or found from how the server responds. Pure."""
