"""The watch shim: watches the resources, decides, and starts, signals or cancels workflows."""
