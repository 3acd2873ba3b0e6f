package route

import (
	"slices"
	"time"

	"slipway.dev/slipway/api/refusal"
)

// check requires a rate above 0; a limit of 0 requests would close the route, which
// is what ipFilter is for.
func (p *RateLimit) check(r *report) {
	checkAtLeast(r, "requests", p.Requests, 1)
	checkAtLeast(r, "burst", p.Burst, 0)
	if time.Duration(p.Period) < time.Millisecond || time.Duration(p.Period) > 24*time.Hour {
		r.add("period", refusal.Invalid, "%s is not between 1ms and 24h", p.Period)
	}
	r.enter("key")
	p.Key.check(r)
	r.leave()
	checkErrorStatus(r, p.Status)
	p.Client.check(r)
}

// checkErrorStatus validates the status of a refused request; 0 means the default.
func checkErrorStatus(r *report, status int) {
	if status != 0 && (status < 400 || status > 599) {
		r.add("status", refusal.Invalid, "%d is not an error status from 400 to 599", status)
	}
}

// check requires a limit above 0.
func (p *InFlight) check(r *report) {
	checkAtLeast(r, "max", p.Max, 1)
	r.enter("key")
	p.Key.check(r)
	r.leave()
	checkErrorStatus(r, p.Status)
	p.Client.check(r)
}

// check allows 0, which refuses every body.
func (p *BodyLimit) check(r *report) {
	checkAtLeast(r, "maxBytes", p.MaxBytes, 0)
}

// check requires at least one direction.
func (p *Buffering) check(r *report) {
	checkAtLeast(r, "maxRequestBytes", p.MaxRequestBytes, 0)
	checkAtLeast(r, "maxResponseBytes", p.MaxResponseBytes, 0)
	if p.MaxRequestBytes == 0 && p.MaxResponseBytes == 0 {
		r.add("maxRequestBytes", refusal.Required, "nothing is buffered; give a size for requests or for responses")
	}
}

// check allows the encodings that the edge has encoders for.
func (p *Compression) check(r *report) {
	checkChoices(r, "encodings", p.Encodings, EncodingGzip, EncodingBrotli, EncodingZstd)
	checkAtLeast(r, "minBytes", p.MinBytes, 0)
	checkTexts(r, "contentTypes", p.ContentTypes)
	checkTexts(r, "excludeContentTypes", p.ExcludeContentTypes)
}

// check bounds the attempts: each one multiplies the load of a failing backend.
func (p *Retry) check(r *report) {
	if p.Attempts < 2 || p.Attempts > 10 {
		r.add("attempts", refusal.Invalid, "%d is not between 2 and 10; the first attempt counts", p.Attempts)
	}
	checkChoices(r, "on", p.On, RetryConnect, RetryReset, RetryTimeout, RetryUnavailable)
	for i, status := range p.Statuses {
		if status < 400 || status > 599 {
			r.addItem("statuses", i, refusal.Invalid, "%d is not the status of an error, from 400 to 599", status)
		}
	}
	checkDuration(r, "attemptTimeout", p.AttemptTimeout)
	checkDuration(r, "backoff", p.Backoff)
}

// check requires a percentage, a window and a time to stay open.
func (p *CircuitBreaker) check(r *report) {
	checkPercent(r, "failurePercent", p.FailurePercent)
	checkAtLeast(r, "minRequests", p.MinRequests, 0)
	if p.Window <= 0 {
		r.add("window", refusal.Required, "give the time over which failures are counted, such as 10s")
	}
	if p.Open <= 0 {
		r.add("open", refusal.Required, "give the time for which nothing is sent, such as 10s")
	}
}

// check requires a backend and a share.
func (p *Mirror) check(r *report) {
	checkAtLeast(r, "of", int64(p.Of), 0)
	switch {
	case p.Of == 0:
		checkPercent(r, "percent", p.Percent)
	case p.Of > 0 && (p.Percent < 1 || p.Percent > p.Of):
		r.add("percent", refusal.Invalid, "%d of %d is no share; give a number from 1 to %d", p.Percent, p.Of, p.Of)
	}
	checkAtLeast(r, "maxBodyBytes", p.MaxBodyBytes, 0)
}

// check requires at least one header.
func (p *ForwardCertificate) check(r *report) {
	if p.PEMHeader+p.InfoHeader+p.VerifyHeader+p.SubjectHeader+p.IssuerHeader == "" {
		r.add("pemHeader", refusal.Required, "nothing is sent; name a header")
	}
	checkOptionalHeaderName(r, "pemHeader", p.PEMHeader)
	checkOptionalHeaderName(r, "infoHeader", p.InfoHeader)
	checkOptionalHeaderName(r, "verifyHeader", p.VerifyHeader)
	checkOptionalHeaderName(r, "subjectHeader", p.SubjectHeader)
	checkOptionalHeaderName(r, "issuerHeader", p.IssuerHeader)
	if p.Unverified && p.VerifyHeader == "" {
		r.add("unverified", refusal.Conflict, "the result is not sent; name a verifyHeader")
	}
	if (p.InfoHeader == "") != (len(p.Info) == 0) {
		r.add("info", refusal.Conflict, "a header for fields and the fields go together; give both or neither")
	}
	checkChoices(r, "info", p.Info, InfoSubject, InfoIssuer, InfoSerial, InfoNotBefore, InfoNotAfter, InfoNames)
	checkChoices(r, "subject", p.Subject, NameParts()...)
	checkChoices(r, "issuer", p.Issuer, NameParts()...)
	if p.Bare && p.PEMHeader == "" {
		r.add("bare", refusal.Conflict, "the certificate is not sent; name a pemHeader")
	}
	if len(p.Subject) > 0 && !slices.Contains(p.Info, InfoSubject) {
		r.add("subject", refusal.Conflict, "the subject is not sent; add it to info")
	}
	if len(p.Issuer) > 0 && !slices.Contains(p.Info, InfoIssuer) {
		r.add("issuer", refusal.Conflict, "the issuer is not sent; add it to info")
	}
}
