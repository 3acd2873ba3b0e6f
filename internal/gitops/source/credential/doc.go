// Package credential reads and holds credentials of repositories: Secrets in
// Argo CD's form, the known hosts of SSH and the certificate authorities of
// hosts.
//
// [Parse] reads one Secret. A [Store] holds all of them and finds the one for
// an address and a project: that of exactly this repository, or the one with the
// longest matching prefix. One with a project serves no other. It is safe for
// concurrent use.
//
// Passwords, tokens and keys are secret.Text, which no log and no error prints.
// A credential matches its own host only: the prefix https://example.com does
// not match https://example.com.evil.test.
//
// It refuses credentials that it cannot use, such as cloud identities, and names
// the alternative.
package credential
