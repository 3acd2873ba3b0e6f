package validate

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
)

// World is the cluster and the network that values are checked against. Live is
// the real one. Callers wrap it to add objects that do not exist yet.
type World interface {
	// Secret reads one key of a Secret. Errors are ErrNoSecret, ErrNoKey, or
	// why it could not be read.
	Secret(ctx context.Context, namespace, name, key string) (secret.Text, error)
	// Membership returns the credential of the runtime in a namespace, nil if
	// there is none.
	Membership(ctx context.Context, namespace string) (*Membership, error)
	// IngressClass returns the controller of a class, or ErrNoClass.
	IngressClass(ctx context.Context, name string) (controller string, err error)
	// Caller returns whom a key belongs to at the platform.
	Caller(ctx context.Context, link Link) (Caller, error)
	// NameFree reports whether the platform accepts a name.
	NameFree(ctx context.Context, link Link, name string) (NameAvailability, error)
	// GitSettings returns the Git settings of the account, or ErrMayNotRead.
	GitSettings(ctx context.Context, link Link) (GitSettings, error)
	// Get requests an address.
	Get(ctx context.Context, address string) (HTTPResponse, error)
	// GitToken returns what a token may do at its Git provider.
	GitToken(ctx context.Context, settings GitSettings, username string, token secret.Text) (gitprovider.TokenReport, error)
}

// What a World cannot find.
var (
	ErrNoSecret   = errors.New("there is no such Secret")
	ErrNoKey      = errors.New("the Secret has no such key, or it is empty")
	ErrNoClass    = errors.New("there is no such IngressClass")
	ErrMayNotRead = errors.New("the API key may not read it")
	// ErrRefused is a key that the platform rejects.
	ErrRefused = errors.New("the platform does not know the API key")
)

// Link is how a platform is reached.
type Link struct {
	URL   string
	Token secret.Text
	// Authorities are PEM, beside those of the system.
	Authorities []byte
}

// Membership identifies a runtime that has joined.
type Membership struct{ Platform, Runtime, AccountID string }

// Caller is the owner of a key.
type Caller struct {
	Email     string
	Admin     bool
	AccountID string
	Account   string
	// MayRegister is false for a key whose scopes leave it out.
	MayRegister bool
	// Expires is zero for a key that does not expire.
	Expires time.Time
}

// NameAvailability is the platform's response for a name. Reason and Proposal may be
// set if the name is not free.
type NameAvailability struct {
	Free             bool
	Reason, Proposal string
}

// GitSettings are the Git settings of an account.
type GitSettings struct {
	Provider, APIURL, SharedRepository string
	// Authorities are PEM, beside those of the system.
	Authorities []byte
}

// HTTPResponse is the HTTP response of an address.
type HTTPResponse struct {
	Status int
	// Router is the runtime whose router responded, empty if another server
	// did.
	Router string
}
