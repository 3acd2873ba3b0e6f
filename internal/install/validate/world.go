package validate

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
)

// World is who is asked about values. Live asks for real.
type World interface {
	// Secret reads one key of a Secret. Errors are ErrNoSecret, ErrNoKey, or say
	// why it could not be read.
	Secret(ctx context.Context, namespace, name, key string) (secret.Text, error)
	// Membership is what the runtime of a namespace got when it joined; nil when
	// there is none.
	Membership(ctx context.Context, namespace string) (*Membership, error)
	// IngressClass says which controller serves a class. ErrNoClass says that it
	// does not exist.
	IngressClass(ctx context.Context, name string) (controller string, err error)
	// Caller asks the platform who a key belongs to.
	Caller(ctx context.Context, link Link) (Caller, error)
	// NameFree asks the platform whether a name can be used.
	NameFree(ctx context.Context, link Link, name string) (NameAnswer, error)
	// GitSettings asks the platform where the account keeps its Git repositories;
	// ErrMayNotRead when the key may not know.
	GitSettings(ctx context.Context, link Link) (GitSettings, error)
	// Get asks an address.
	Get(ctx context.Context, address string) (Answer, error)
	// GitToken asks a Git provider what a token may do.
	GitToken(ctx context.Context, settings GitSettings, username string, token secret.Text) (gitprovider.TokenReport, error)
}

// What a World cannot find.
var (
	ErrNoSecret   = errors.New("there is no such Secret")
	ErrNoKey      = errors.New("the Secret has no such key, or it is empty")
	ErrNoClass    = errors.New("there is no such IngressClass")
	ErrMayNotRead = errors.New("the API key may not read it")
	// ErrRefused is a key that the platform does not know.
	ErrRefused = errors.New("the platform does not know the API key")
)

// Link is how a platform is asked.
type Link struct {
	URL   string
	Token secret.Text
	// Authorities are PEM, beside those of the system.
	Authorities []byte
}

// Membership is what a runtime knows of itself.
type Membership struct{ Platform, Runtime, AccountID string }

// Caller is whom a key belongs to.
type Caller struct {
	Email     string
	Admin     bool
	AccountID string
	Account   string
	// MayRegister is false for a key whose scopes leave it out.
	MayRegister bool
	Expires     time.Time
}

// NameAnswer is what a platform says of a name.
type NameAnswer struct {
	Free             bool
	Reason, Proposal string
}

// GitSettings are those of an account.
type GitSettings struct {
	Provider, APIURL, SharedRepository string
	// Authorities are PEM, beside those of the system.
	Authorities []byte
}

// Answer is what an address said.
type Answer struct {
	Status int
	// Router is the runtime whose router answered.
	Router string
}
