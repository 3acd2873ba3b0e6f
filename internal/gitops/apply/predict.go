package apply

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/plan"
)

// Predict returns a function that predicts a live object after the desired one
// is applied. If that is certainly the live object as it is, no request is
// sent; otherwise one dry run is.
//
// Fields are validated as strictly as when the object is applied: a dry run
// without validation drops a field that a kind does not have, the object would
// be Synced, and the field would never be applied nor reported. unvalidated
// selects the objects that are applied without validation; nil selects none.
//
// The live object should be in the version of the desired one, as
// live.Cache.Fetch returns it. If it is not, it is read once more to be
// compared.
func (a *Applier) Predict(ctx context.Context, unvalidated func(*unstructured.Unstructured) bool) plan.Predict {
	return func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		object := sanitize(desired.Object)
		if isCertainNoop(object, live) {
			return live, nil
		}
		body, err := json.Marshal(object)
		sent := request{object, body}
		if err == nil && a.noops.has(sent, live) {
			return live, nil
		}
		at, fault := a.refOf(ctx, desired)
		if fault != nil {
			return nil, fault
		}
		at.secrets = maskOf(at.key, desired, live)
		if err != nil {
			return nil, at.newError(Invalid, "it cannot be written as JSON", err)
		}
		if unvalidated == nil || !unvalidated(desired) {
			return a.dryRun(ctx, &at, sent, live, metav1.FieldValidationStrict)
		}
		var after *unstructured.Unstructured
		_, err = sendWithout(sent, func(sent request) (err error) {
			after, err = a.dryRun(ctx, &at, sent, live, metav1.FieldValidationIgnore)
			return err
		})
		return after, err
	}
}

// dryRun sends the dry run. A result that changes nothing is added to the cache
// of no-ops.
//
// The live object may be older than that of the API server, and the response
// then has what controllers changed since. That is not a change by the apply,
// so the object is read again. If a controller changed it between the two
// requests, they do not compare, and both are repeated.
func (a *Applier) dryRun(ctx context.Context, at *objectRef, sent request, live *unstructured.Unstructured, validation string) (*unstructured.Unstructured, error) {
	var before, after *unstructured.Unstructured
	for range comparisons {
		var err error
		if after, err = a.sendDryRun(ctx, at, sent, validation); err != nil {
			return nil, err
		}
		before = live
		if !isSameVersion(live, after) || live.GetAPIVersion() != after.GetAPIVersion() {
			if before, err = (&objectWrite{Applier: a, ref: *at}).read(ctx); err != nil {
				return nil, err
			}
		}
		if isSameVersion(before, after) {
			break
		}
	}
	if after.GetUID() != live.GetUID() || !sameContent(sent, before, after) {
		return after, nil
	}
	if isSameVersion(live, after) {
		a.noops.add(sent, live)
	} else {
		a.noops.add(sent, before)
	}
	return live, nil
}

// comparisons bounds how often a dry run is repeated because a controller
// changed the object meanwhile. One that writes without a pause would keep the
// comparison from ending.
const comparisons = 3

// isSameVersion reports whether two objects are of one resource version.
func isSameVersion(a, b *unstructured.Unstructured) bool {
	return a.GetResourceVersion() == b.GetResourceVersion()
}

// sendDryRun returns the object as an apply would leave it.
func (a *Applier) sendDryRun(ctx context.Context, at *objectRef, sent request, validation string) (*unstructured.Unstructured, error) {
	raw, err := a.send(ctx, at, call{
		method: http.MethodPatch, path: at.path, contentType: types.ApplyYAMLPatchType, body: sent.body,
		query: url.Values{
			"fieldManager": {Manager}, "force": {"true"}, "dryRun": {metav1.DryRunAll},
			"fieldValidation": {validation},
		},
	})
	if err != nil {
		return nil, err
	}
	after, err := decode(raw)
	if err != nil {
		return nil, at.newError(Transient, err.Error(), nil)
	}
	return after, nil
}
