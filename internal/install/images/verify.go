package images

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
)

// checked is a source that verifies the digest of its content: a registry or an
// archive with other content fails here, and not on the node that runs it.
type checked struct{ oras.ReadOnlyTarget }

// Fetch returns a reader that ends with an error unless the content matches.
func (c checked) Fetch(ctx context.Context, target ocispec.Descriptor) (io.ReadCloser, error) {
	from, err := c.ReadOnlyTarget.Fetch(ctx, target)
	if err != nil {
		return nil, err
	}
	return &checkedReader{content: content.NewVerifyReader(from, target), from: from, of: target}, nil
}

// checkedReader verifies size and digest at the end of the content.
type checkedReader struct {
	content *content.VerifyReader
	from    io.Closer
	of      ocispec.Descriptor
}

// Read reads, and verifies at the end.
func (r *checkedReader) Read(p []byte) (int, error) {
	// Content is handed on before it is verified. The error at its end fails
	// the copy.
	n, err := r.content.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if wrong := r.content.Verify(); wrong != nil {
		return n, fmt.Errorf("the content of %s is damaged: %w", r.of.Digest, wrong)
	}
	return n, io.EOF
}

// Close closes the source.
func (r *checkedReader) Close() error { return r.from.Close() }
