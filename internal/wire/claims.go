package wire

import "time"

// RuntimeClaims are the claims of a token with which the platform sends
// requests to a runtime. It is a JSON Web Token, signed with Ed25519, valid for
// one runtime and for RequestTokenLifetime.
type RuntimeClaims struct {
	// Issuer is the platform's public URL.
	Issuer string `json:"iss"`
	// RuntimeID is the runtime that the token is for.
	RuntimeID string `json:"aud"`
	// UserID is the calling user; empty for requests of the platform itself.
	UserID string `json:"sub"`
	Email  string `json:"email,omitempty"`
	Name   string `json:"name,omitempty"`
	// Role is one of package permission.
	Role string `json:"role"`
	// Groups are those of the user that a policy names.
	Groups []string `json:"groups,omitempty"`
	// Policy has the rules of the platform's policy that concern the user.
	Policy    PolicyExcerpt `json:"policy,omitzero"`
	AccountID string        `json:"account"`
	// Prefix is the path that the token is valid for, such as /app-proxy/.
	Prefix    string `json:"prefix"`
	IssuedAt  int64  `json:"iat"`
	ExpiresAt int64  `json:"exp"`
	// ID is different in every token: a runtime accepts a token once.
	ID string `json:"jti"`
}

// RequestTokenType is the typ header of a token of RuntimeClaims, so that
// another token of the platform is never taken for one (RFC 8725, section
// 3.11).
const RequestTokenType = "slipway-request+jwt"

// PolicyExcerpt has the rules of a policy that concern one user, as package
// rights writes them.
type PolicyExcerpt struct {
	Text    string `json:"text,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Default string `json:"default,omitempty"`
}

// RequestTokenLifetime is the lifetime of a token of RuntimeClaims. It is
// checked when a request starts, so streams may last longer.
const RequestTokenLifetime = time.Minute
