// Package storage stands in for Google's Cloud Storage client, which the Temporal server links for its archival feature.
//
// The development server does not use archival. The real client and its dependencies, among them the whole xDS API, take a
// sixth of the time to compile Temporal. This package declares only what Temporal refers to; every operation fails.
package storage

import (
	"context"
	"errors"

	"google.golang.org/api/option"
)

const ScopeFullControl = ""

var errNotCompiledIn = errors.New("Google Cloud Storage is not compiled into this development server")

type (
	Client         struct{}
	BucketHandle   struct{}
	ObjectHandle   struct{}
	ObjectIterator struct{}
	Writer         struct{}
	Reader         struct{}
	BucketAttrs    struct{}
	ObjectAttrs    struct{ Name string }
	Query          struct{ Prefix string }
)

func NewClient(context.Context, ...option.ClientOption) (*Client, error) {
	return nil, errNotCompiledIn
}

func (*Client) Bucket(string) *BucketHandle { return &BucketHandle{} }

func (*BucketHandle) Object(string) *ObjectHandle                     { return &ObjectHandle{} }
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return &ObjectIterator{} }
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error)     { return nil, errNotCompiledIn }
func (*ObjectIterator) Next() (*ObjectAttrs, error)                   { return nil, errNotCompiledIn }
func (*ObjectHandle) NewWriter(context.Context) *Writer               { return &Writer{} }
func (*ObjectHandle) NewReader(context.Context) (*Reader, error)      { return nil, errNotCompiledIn }
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error)     { return nil, errNotCompiledIn }
func (*Writer) Write([]byte) (int, error)                             { return 0, errNotCompiledIn }
func (*Writer) Close() error                                          { return errNotCompiledIn }
func (*Writer) CloseWithError(error) error                            { return errNotCompiledIn }
func (*Reader) Read([]byte) (int, error)                              { return 0, errNotCompiledIn }
func (*Reader) Close() error                                          { return nil }
