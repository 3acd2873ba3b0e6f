package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/cli/printer"
)

// Call sends one request with RequestTimeout, and turns an error into one that
// names the next step for the user. It does not retry: a command reports the
// failure and the user decides.
func Call[Q, A any](
	ctx context.Context, c *Client, call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), message *Q,
) (*A, error) {
	bounded, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	response, err := call(bounded, connect.NewRequest(message))
	if err != nil {
		// Explained with the caller's ctx and not the bounded one, so that the
		// timeout of this request is not mistaken for an interrupt.
		return nil, c.Explain(ctx, err)
	}
	return response.Msg, nil
}

// AllPages collects a list until there is no next page. A platform that returns
// the same token twice, or more than maxPages pages, is an error and not a
// loop. An error of fetch discards the pages before it.
func AllPages[T any](fetch func(page string) ([]T, string, error)) ([]T, error) {
	var all []T
	token := ""
	for range maxPages {
		some, next, err := fetch(token)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if next == "" {
			return all, nil
		}
		if next == token {
			break
		}
		token = next
	}
	return nil, errors.New("the platform's list has no end: this program or the platform is broken")
}

// Explain turns an error of the platform, or of a runtime behind it, into one
// line that names the next step for the user. The end of ctx wins over the
// errors that it caused. Text from the network is escaped for the terminal.
func (c *Client) Explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var connectErr *connect.Error
	if !errors.As(err, &connectErr) {
		return err
	}
	message := printer.Printable(connectErr.Message())
	if !connect.IsWireError(err) {
		return c.explainUnreached(connectErr, message)
	}
	switch connectErr.Code() {
	case connect.CodeUnauthenticated:
		// A login sends no key, and to run it again is no help.
		if c.Key.IsZero() {
			return errors.New(message)
		}
		if c.Name == "" {
			return fmt.Errorf("the platform does not accept the key: check the key in %s (%s)", KeyVariable, message)
		}
		return fmt.Errorf("the platform does not accept the key: run slipway login %s --name %s (%s)", c.URL, printer.Printable(c.Name), message)
	case connect.CodePermissionDenied:
		return fmt.Errorf("you may not do this: %s", message)
	}
	return errors.New(message)
}

// explainUnreached is Explain for errors that did not come from the platform:
// TLS, the network, or a server that does not speak the API. The order matters:
// certificate errors are also network errors, and have the better message.
func (c *Client) explainUnreached(connectErr *connect.Error, message string) error {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(connectErr, &unknown):
		return fmt.Errorf("the certificate of %s is of an authority that this machine does not know: name its file with slipway login %[1]s --ca-file FILE", c.BaseURL())
	case errors.As(connectErr, &wrong), errors.As(connectErr, &verification):
		return fmt.Errorf("the certificate of %s is not good for it: %s", c.BaseURL(), message)
	case errors.Is(connectErr, context.DeadlineExceeded):
		return fmt.Errorf("the platform at %s does not respond within %s: see whether it runs and whether this machine reaches it", c.BaseURL(), RequestTimeout)
	case unreachable(connectErr):
		return fmt.Errorf("the platform at %s does not respond: %s", c.BaseURL(), message)
	}
	return fmt.Errorf("the server at %s is no platform, or another version of it: %s", c.BaseURL(), message)
}

// unreachable reports whether the connection failed or broke before a response.
func unreachable(err error) bool {
	var network *net.OpError
	var dns *net.DNSError
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &dns) || errors.As(err, &request) || errors.Is(err, io.ErrUnexpectedEOF)
}
