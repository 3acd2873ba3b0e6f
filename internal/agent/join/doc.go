// Package join registers a cluster as a runtime of the platform: it registers
// with an API key, stores and renews the credential, and sends heartbeats with
// the state of the runtime.
//
//	Run    every replica: watches the Secret slipway-token with the credential
//	Lead   the leader: registers, renews, sends heartbeats, uninstalls
//
// It promises that a credential is in the Secret before it is used, so that a
// process that is killed at any point continues with it: a registration or a
// renewal whose response was lost is repeated. Tokens are renewed at half of
// their lifetime, measured with the platform's clock. What keeps the runtime
// from joining is a Status with a phase and a message, and an Event about the
// Secret.
//
// The delivery of Applications never waits for the platform: Lead ends with its
// context only, and nothing here makes an agent unready.
//
// It refuses to send a token over an unencrypted connection, unless that is
// allowed, and to follow redirects. A runtime whose credential was revoked
// stays unregistered until it gets a new API key.
//
// See decision 0018 in docs/decisions: A runtime has a refresh token, and
// tokens for minutes.
package join
