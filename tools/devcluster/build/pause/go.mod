module inferrun.dev/devcluster/pause

go 1.24.0
