"""Development tooling: the development cluster, lock files, and the generated parts of the
documentation. Never deployed."""
