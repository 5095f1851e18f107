"""The clients, as scripts that their own documentation would show."""
