package acme

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/certrequest"
)

// job is the state of one certificate request.
type job struct {
	request certrequest.Request
	// due is the time of the next attempt, renewal or check.
	due      time.Time
	failures int
	// leaf is the stored certificate; nil for none.
	leaf *x509.Certificate
	// renewalJitter is a random number from 0 to 1 that spreads renewals, so that
	// certificates issued together are not renewed together.
	renewalJitter float64
	// suggested is the renewal time that the authority suggests, zero for none,
	// and renewalInfoAt when to request it next.
	suggested     time.Time
	renewalInfoAt time.Time
	// fault is the fault that was reported last; nil for none.
	fault *refusal.Refusal
}

// renewAt returns the earlier of our own and the suggested renewal time.
func (j *job) renewAt() time.Time {
	at := renewalOf(j.leaf, j.renewalJitter)
	if !j.suggested.IsZero() && j.suggested.Before(at) {
		return j.suggested
	}
	return at
}

// renewalOf returns when a third of the lifetime of a certificate is left, or up
// to a thirtieth of the lifetime earlier.
func renewalOf(leaf *x509.Certificate, early float64) time.Time {
	lifetime := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotAfter.Add(-lifetime/3 - time.Duration(early*float64(lifetime/30)))
}

// retryDelay returns the backoff after so many failures in a row.
func (p timing) retryDelay(failures int) time.Duration {
	return backoff.Policy{First: p.first, Longest: p.longest}.Base(failures)
}

// jittered adds up to a fifth to a duration.
func jittered(wait time.Duration) time.Duration { return backoff.Jitter(wait, 0.2) }

// maxReason bounds the part of an error that goes into an Event.
const maxReason = 500

// faultOf turns an error into a fault, with the time of the next attempt.
func faultOf(known *job, resolver string, err error) *refusal.Refusal {
	fault := &refusal.Refusal{Reason: refusal.NotReady}
	if errors.Is(err, errNotOurs) {
		fault.Reason = refusal.Conflict
	}
	done := "issued"
	if known.leaf != nil {
		done = "renewed"
	}
	fault.Message = fmt.Sprintf("the certificate for %s could not be %s by the resolver %s: %s; the next attempt is after %s",
		shortened(strings.Join(known.request.Hosts, ", ")), done, resolver, reasonOf(err), known.due.UTC().Format(time.RFC3339))
	return fault
}

// reasonOf returns the type and detail of an ACME problem (RFC 8555, section
// 6.7), or the text of any other error.
func reasonOf(err error) string {
	if problem, ok := errors.AsType[acme.Problem](err); ok && problem.Detail != "" {
		return shortened(strings.TrimPrefix(problem.Type, acme.ProblemTypeNamespace) + ": " + problem.Detail)
	}
	return shortened(err.Error())
}

// shortened bounds a text of an authority and makes it valid UTF-8 for Events.
func shortened(text string) string { return refusal.Shorten(text, maxReason) }
