// Package join makes a cluster a runtime of the platform: it registers with an API
// key, keeps the credential that it gets, renews it, and tells every few seconds
// that the runtime lives and how it is.
//
//	Run    every replica: follows the Secret slipway-token, which has the credential
//	Lead   the elected replica: registers, renews, sends heartbeats, uninstalls
//
// It promises that a credential is in the Secret before it is used, so that a
// process that is killed at any point goes on with it: a registration whose answer
// was lost is repeated, and so is a renewal. Tokens are renewed at half of their
// life, which is measured with the platform's clock. What keeps the runtime from
// being joined is a Status with one word and a sentence, and an Event about the
// Secret.
//
// The delivery of Applications never waits for the platform: Lead ends with its
// context only, and nothing here makes an agent unready.
//
// It refuses to send a token over a connection that is not encrypted, unless that
// is allowed, and to follow redirects. A runtime whose credential was revoked stays
// out until somebody gives it a new API key.
package join
