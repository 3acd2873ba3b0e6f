// Package credential is what opens repositories: Secrets in Argo CD's form, the
// known hosts of SSH and the certificate authorities of hosts.
//
// [Parse] reads one Secret. A [Book] holds all of them and finds the one for an
// address: that of exactly this repository, or the longest prefix of those for
// many. It is safe for concurrent use.
//
// It promises that passwords, tokens and keys are secret.Text, which no log and
// no error shows, and that a credential is found for its own host only: the
// prefix https://example.com does not match https://example.com.evil.test.
//
// It refuses what it cannot use, such as GitHub Apps and cloud identities, and
// says what to use instead.
package credential
