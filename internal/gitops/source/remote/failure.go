package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"slipway.dev/slipway/internal/outbound"
)

// Reason is what a failure means.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable" // try again
	Denied      Reason = "denied"
	Missing     Reason = "missing"
	TooLarge    Reason = "too large"
	Invalid     Reason = "invalid"
)

// Failure is the error of an exchange. The message contains the way out and no
// credentials.
type Failure struct {
	Reason  Reason
	Message string
	Err     error
	// Forbidden is set for an address that is not connected to.
	Forbidden bool
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// failf makes a *Failure.
func failf(reason Reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// ConnectionFailure converts an error of a connection. The text of such an
// error can contain an address with a password, so that only parts that are
// safe are passed on. Problems of certificates are Denied: a retry does not
// help until a user changes something. All others are retried.
func ConnectionFailure(ctx context.Context, err error) *Failure {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	f := &Failure{Reason: Unreachable, Err: err}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var lookup *net.DNSError
	var operation *net.OpError
	var refused *outbound.RefusedError
	var timeout interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
		f.Message = "no response in time"
	case errors.As(err, &refused):
		f.Reason, f.Message, f.Forbidden = Denied, refused.Error(), true
	case errors.As(err, &unknown):
		f.Reason, f.Message = Denied, "its certificate is of an unknown authority: add that to the ConfigMap argocd-tls-certs-cm, with the host as the key"
	case errors.As(err, &host):
		f.Reason, f.Message = Denied, "its certificate is for another host"
	case errors.As(err, &invalid):
		f.Reason, f.Message = Denied, "its certificate is not valid: "+invalid.Error()
	case errors.As(err, &alert):
		f.Reason, f.Message = Denied, "it refuses the connection: "+alert.Error()+": does it want a certificate of the client?"
	case errors.As(err, &lookup):
		f.Message = "the host " + lookup.Name + " cannot be found"
	case errors.As(err, &operation):
		f.Message = "the connection failed: " + operation.Err.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		f.Message = "no response in time"
	default:
		f.Message = "the connection broke"
	}
	return f
}

// plainText is text of a server for people: one line, not long, nothing odd.
// The text comes from a server and ends up in a status and in logs, where
// control characters could forge lines.
func plainText(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return -1
		}
		return r
	}, text)
}
