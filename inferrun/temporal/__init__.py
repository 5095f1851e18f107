"""What our processes share in using Temporal: the plugin, the connection, search attributes and run
workflows."""
