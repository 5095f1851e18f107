"""The protocols of model servers."""
