// Package providertest answers for Git providers in tests: one strict server
// for each API that internal/gitprovider speaks. A server knows tokens, their
// scopes and roles, repositories and webhooks, and answers as the provider
// documents, with its headers, error bodies and pages.
//
// It promises to fail the test on what the provider does not document: an
// unknown path, method, query parameter or field, a wrong type, a missing
// header, a token sent in the wrong way. Each endpoint names the page that
// documents it.
//
// It is for tests only.
package providertest
