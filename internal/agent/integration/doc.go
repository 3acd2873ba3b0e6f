// Package integration stores the Git credentials of a runtime and of its users,
// in the runtime's cluster and nowhere else (R9). It implements
// IntegrationService.
//
//	slipway-git-<integration>   a provider, and the tokens of users for it, each
//	                            encrypted for its user
//	slipway-git-key             the key of that encryption, created on first use
//	slipway-git-runtime         the credential of the runtime itself
//	slipway-git-runtime-*       the same in Argo CD's form, for the agent
//	slipway-oauth-<provider>    the OAuth application of an admin: clientId and
//	                            clientSecret
//	slipway-oauth-flows         OAuth logins in progress
//
// All of them are Secrets of the control namespace. The package promises that a
// token is checked with its provider before it is stored, that a token that was
// copied to another user's field, or whose provider was changed, cannot be
// decrypted, that concurrent registrations of two users both succeed, and that
// no token is part of a response, a log or an error.
//
// A credential that the runtime was installed with becomes that of the runtime,
// once for each token.
//
// It refuses tokens without the scopes they need, unless the check is skipped,
// known hosts and authorities of other hosts than the Git server's, and OAuth
// logins that another user began.
package integration
