package wire

import "time"

// RuntimeClaims is what a token says with which the platform asks something of a
// runtime. It is a JSON Web Token, signed with Ed25519, for one runtime and for
// seconds.
type RuntimeClaims struct {
	// Issuer is the platform's public URL.
	Issuer string `json:"iss"`
	// RuntimeID is the runtime that the token is for.
	RuntimeID string `json:"aud"`
	// UserID is who asks; empty when the platform asks for itself.
	UserID string `json:"sub"`
	Email  string `json:"email,omitempty"`
	Name   string `json:"name,omitempty"`
	// Role is admin or user.
	Role      string `json:"role"`
	AccountID string `json:"account"`
	// Prefix is the path that the token is good for, such as /app-proxy/.
	Prefix    string `json:"prefix"`
	IssuedAt  int64  `json:"iat"`
	ExpiresAt int64  `json:"exp"`
	ID        string `json:"jti"`
}

// RequestTokenLifetime is how long a token of RuntimeClaims is good. It is checked
// when a request begins, so streams may last longer.
const RequestTokenLifetime = time.Minute
