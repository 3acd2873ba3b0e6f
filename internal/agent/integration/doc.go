// Package integration keeps the Git credentials of a runtime and of the users who
// work with it, in its cluster and nowhere else (R9). It implements
// IntegrationService.
//
//	slipway-git-<integration>   a provider, and the tokens of users for it, each
//	                            encrypted for its user
//	slipway-git-key             the key of that encryption, made on first use
//	slipway-git-runtime         the credential of the runtime itself
//	slipway-git-runtime-*       the same in Argo CD's form, for the engine
//	slipway-oauth-<provider>    the OAuth application of an admin: clientId and
//	                            clientSecret
//	slipway-oauth-flows         logins with a provider that are under way
//
// All of them are Secrets of the control namespace. It promises that a token is
// asked about at its provider before it is stored, that a token which was moved to
// another user's place, or whose provider was changed, cannot be used, that two
// users who register at the same time both are registered, and that no token
// leaves in an answer, a log or an error.
//
// It refuses tokens that lack what they are needed for, unless that is asked
// for, known hosts and authorities of other hosts than the Git server's, and a
// login that another user began.
package integration
