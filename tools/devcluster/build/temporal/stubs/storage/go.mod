module cloud.google.com/go/storage

go 1.24.0

require google.golang.org/api v0.228.0
