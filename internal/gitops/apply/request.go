package apply

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"slipway.dev/slipway/internal/backoff"
)

// backoffSettings are how often and how long requests are retried. Tests change
// them.
type backoffSettings struct {
	// tries is how often a request is sent at most.
	tries int
	// first is the pause after the first one; it doubles.
	first time.Duration
	// longest bounds a pause, also one that the API server requests.
	longest time.Duration
	// request is how long one may take.
	request time.Duration
}

// defaultBackoff retries for a few seconds: longer interruptions are the
// operation's to retry, which keeps no worker busy.
func defaultBackoff() backoffSettings {
	return backoffSettings{tries: 4, first: 150 * time.Millisecond, longest: 5 * time.Second, request: 45 * time.Second}
}

// call is one request to the API server.
type call struct {
	method      string
	path        string
	contentType types.PatchType
	body        []byte
	query       url.Values
	// once: it must not be sent again when it is not certain whether it took
	// effect.
	once bool
	// exact: a retry does not resolve a conflict.
	exact bool
}

// query are the parameters of a write. Validation is strict unless the step has
// Validate=false.
func (w *objectWrite) query(more ...string) url.Values {
	values := url.Values{"fieldManager": {Manager}, "fieldValidation": {metav1.FieldValidationStrict}}
	if w.step.Options.SkipValidation {
		values.Set("fieldValidation", metav1.FieldValidationIgnore)
	}
	if w.options.DryRun {
		values.Set("dryRun", metav1.DryRunAll)
	}
	for i := 0; i+1 < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return values
}

// send sends a request, and again while that may help. Its error is for people.
func (a *Applier) send(ctx context.Context, at *objectRef, request call) ([]byte, error) {
	for try := 1; ; try++ {
		raw, err := a.sendOnce(ctx, request)
		switch {
		case err == nil:
			return raw, nil
		case ctx.Err() != nil:
			return nil, at.newError(Transient, "there was no time left: "+context.Cause(ctx).Error(), context.Cause(ctx))
		case try >= a.backoff.tries || !request.mayRepeat(err):
			if isWithoutKind(err) {
				a.kinds.Invalidate()
			}
			return nil, at.explain(err)
		}
		if err := a.pause(ctx, try, err); err != nil {
			return nil, at.explain(err)
		}
	}
}

// sendOnce sends a request without the retries of client-go, which would repeat
// a create that took effect.
func (a *Applier) sendOnce(ctx context.Context, request call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.backoff.request)
	defer cancel()
	sent := a.requests.Verb(request.method).AbsPath(request.path).MaxRetries(0)
	for name, values := range request.query {
		for _, value := range values {
			sent.Param(name, value)
		}
	}
	if request.body != nil {
		kind := cmp.Or(string(request.contentType), runtime.ContentTypeJSON)
		sent.SetHeader("Content-Type", kind).Body(request.body)
	}
	if a.user != "" {
		sent.SetHeader("Impersonate-User", a.user)
	}
	result := sent.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// mayRepeat reports whether a request may succeed if it is sent again. A
// connection that was refused and a 429 did nothing, so even a create may be
// repeated.
func (c *call) mayRepeat(err error) bool {
	refused := apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err)
	switch {
	case refused:
		return true
	case c.once:
		return false
	case apierrors.IsConflict(err):
		return !c.exact
	}
	return isRetryable(err)
}

// isRetryable reports whether an error is about the API server's state and not
// about the request.
func isRetryable(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return true // no response came
	}
	code := status.Status().Code
	return (code >= http.StatusInternalServerError || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)) && !isMalformed(err)
}

// pause waits before the next retry: as long as the API server requests, within
// bounds. The jitter spreads clients that were rejected together.
func (a *Applier) pause(ctx context.Context, try int, err error) error {
	policy := backoff.Policy{First: a.backoff.first, Longest: a.backoff.longest, JitterUp: 0.5}
	pause := policy.Base(try)
	if seconds, requested := apierrors.SuggestsClientDelay(err); requested {
		pause = min(max(pause, time.Duration(seconds)*time.Second), a.backoff.longest)
	}
	if backoff.Sleep(ctx, policy.Spread(pause)) != nil {
		return context.Cause(ctx)
	}
	return nil
}
