"""What other programs import: the resources' and the contract's models, names, reasons, the client and the CLI."""
