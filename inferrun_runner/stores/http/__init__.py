"""The store `http`: one file on a web server, for the input only."""
