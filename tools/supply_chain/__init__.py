"""Release tooling: software bills of materials of the images."""
