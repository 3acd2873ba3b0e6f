// Package providertest has fake Git providers for tests: one strict server
// for each API that internal/gitprovider uses. A server has tokens with
// scopes and roles, repositories and webhooks, and responds as the provider
// documents, with its headers, error bodies and pages.
//
// It fails the test on requests that the provider does not document: an
// unknown path, method, query parameter or field, a wrong type, a missing
// header, or a token that is sent in the wrong way. Each endpoint names the
// page that documents it.
//
// It is for tests only.
package providertest
