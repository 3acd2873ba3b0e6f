package acme

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/wish"
)

// job is a wish and what was done about it.
type job struct {
	wish wish.Wish
	// due is when to look after it.
	due      time.Time
	failures int
	// leaf is the certificate that is there; nil for none.
	leaf *x509.Certificate
	// early spreads renewals, so that what was fetched together is not renewed
	// together: from 0 to 1.
	early float64
	// suggested is when the authority would like it to be renewed; zero when it
	// did not say. adviceAt is when to ask.
	suggested time.Time
	adviceAt  time.Time
	// fault is what was told.
	fault *snapshot.Fault
}

// renewAt is when to renew the certificate that is there.
func (j *job) renewAt() time.Time {
	at := renewalOf(j.leaf, j.early)
	if !j.suggested.IsZero() && j.suggested.Before(at) {
		return j.suggested
	}
	return at
}

// renewalOf is when a third of the time of a certificate is left, or up to a
// thirtieth of it earlier.
func renewalOf(leaf *x509.Certificate, early float64) time.Time {
	lifetime := leaf.NotAfter.Sub(leaf.NotBefore)
	return leaf.NotAfter.Add(-lifetime/3 - time.Duration(early*float64(lifetime/30)))
}

// after is the pause after so many failures in a row.
func (p pace) after(failures int) time.Duration {
	return backoff.Policy{First: p.first, Longest: p.longest}.Base(failures)
}

// jittered is a time, or up to a fifth more.
func jittered(wait time.Duration) time.Duration { return backoff.Jitter(wait, 0.2) }

// The most of what an error says that is told.
const maxReason = 500

// faultOf is an error in the words of a refusal.
func faultOf(known *job, resolver string, err error) *snapshot.Fault {
	fault := &snapshot.Fault{Reason: snapshot.NotReady}
	if errors.Is(err, errNotOurs) {
		fault.Reason = snapshot.Conflict
	}
	done := "fetched"
	if known.leaf != nil {
		done = "renewed"
	}
	fault.Message = fmt.Sprintf("the certificate for %s could not be %s by the resolver %s: %s; it is tried again after %s",
		shortened(strings.Join(known.wish.Hosts, ", ")), done, resolver, reasonOf(err), known.due.UTC().Format(time.RFC3339))
	return fault
}

// reasonOf is what an authority says, without what only its authors understand.
func reasonOf(err error) string {
	var problem acme.Problem
	if errors.As(err, &problem) && problem.Detail != "" {
		return shortened(strings.TrimPrefix(problem.Type, acme.ProblemTypeNamespace) + ": " + problem.Detail)
	}
	return shortened(err.Error())
}

func shortened(text string) string {
	if len(text) > maxReason {
		text = text[:maxReason] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
