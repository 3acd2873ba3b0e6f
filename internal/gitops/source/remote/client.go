package remote

import (
	"context"
	"io"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/outbound"
)

// Access is what opens a repository.
type Access struct {
	Credential credential.Credential // may be empty
	KnownHosts []byte
	// Authorities is PEM text of what the host is trusted by, instead of the
	// usual ones.
	Authorities []byte
	// Outbound decides which addresses are connected to; nil allows all.
	Outbound *outbound.Policy
}

// Client is a connection to one repository. It is for one use at a time; Close
// ends it.
type Client struct {
	address   address.Address
	access    Access
	maxRefs   int
	transport transport
}

// transport is HTTP or SSH. Implementations are used by one goroutine; close
// ends their idle connections.
type transport interface {
	refs(ctx context.Context) (*Advertisement, error)
	fetch(ctx context.Context, a *Advertisement, want Want, take func(io.Reader) error) error
	push(ctx context.Context, message []byte) ([]byte, error)
	lfsAuthenticate(ctx context.Context) ([]byte, error)
	close()
}

// NewClient prepares a client and connects to nothing.
func NewClient(at address.Address, access Access, maxRefs int) (*Client, error) {
	c := &Client{address: at, access: access, maxRefs: maxRefs}
	// Keys, certificates and proxies are parsed here, so that a malformed
	// Secret fails before the first connection.
	var err error
	if at.Scheme == address.SSH {
		c.transport, err = newSSH(c)
	} else {
		c.transport, err = newHTTP(c)
	}
	return c, err
}

// Close ends connections.
func (c *Client) Close() { c.transport.close() }

// Refs requests the ref advertisement.
func (c *Client) Refs(ctx context.Context) (*Advertisement, error) {
	a, err := c.transport.refs(ctx)
	if err != nil {
		return nil, ConnectionFailure(ctx, err)
	}
	return a, nil
}

// Fetch requests a pack and passes it to take. It returns the error of take
// unless the connection broke, which is the cause then.
func (c *Client) Fetch(ctx context.Context, a *Advertisement, want Want, take func(io.Reader) error) error {
	return c.transport.fetch(ctx, a, want, func(r io.Reader) error {
		noted := &trackingReader{from: r}
		err := take(noted)
		// A pack that is cut off looks corrupt to the parser; the connection is
		// the cause.
		if noted.err != nil && err != nil {
			return ConnectionFailure(ctx, noted.err)
		}
		return err
	})
}

// trackingReader distinguishes a broken connection from an invalid pack.
type trackingReader struct {
	from io.Reader
	err  error
}

// Read notes an error that is not the end.
func (n *trackingReader) Read(p []byte) (int, error) {
	read, err := n.from.Read(p)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return read, err
}
