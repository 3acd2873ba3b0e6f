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

// Predict says what a live object would be after the desired one is applied. It
// asks nobody if that is certainly the live object as it is, and makes one dry
// run otherwise.
//
// Fields are validated as strictly as when the object is applied: a field that a
// kind does not have would be dropped by the dry run, the object would be found
// as desired, and nobody would learn that it is never applied. The function says
// which objects are applied without validation; nil is none.
//
// The live object should be in the version of the desired one: live.Cache.Fetch
// gives it so. If it is not, it is read once more to be compared.
func (a *Applier) Predict(ctx context.Context, unvalidated func(*unstructured.Unstructured) bool) plan.Predict {
	return func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		object := sanitize(desired.Object)
		if isCertainNoop(object, live) {
			return live.DeepCopy(), nil
		}
		body, err := json.Marshal(object)
		sent := request{object, body}
		if err == nil && a.noops.has(sent, live) {
			return live.DeepCopy(), nil
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

// dryRun makes a dry run. What turns out to change nothing is remembered.
//
// The live object may be older than the one that the API server has by now, and
// the answer has what controllers have changed since. That is not what an apply
// changes, so the object is read again then.
func (a *Applier) dryRun(ctx context.Context, at *objectRef, sent request, live *unstructured.Unstructured, validation string) (*unstructured.Unstructured, error) {
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
	isSame := live.GetResourceVersion() == after.GetResourceVersion()
	before := live
	if !isSame || live.GetAPIVersion() != after.GetAPIVersion() {
		if before, err = (&objectWrite{Applier: a, ref: *at}).read(ctx); err != nil {
			return nil, err
		}
	}
	if after.GetUID() != live.GetUID() || !sameContent(sent, before, after) {
		return after, nil
	}
	if isSame {
		a.noops.add(sent, live)
	} else {
		a.noops.add(sent, before)
	}
	return live.DeepCopy(), nil
}
