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
// run otherwise. Fields are validated when the object is applied, not here.
//
// The live object should be in the version of the desired one: live.Cache.Fetch
// gives it so. If it is not, it is read once more to be compared.
func (a *Applier) Predict(ctx context.Context) plan.Predict {
	return func(desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		object := tidy(desired.Object)
		if isCertain(object, live) {
			return live.DeepCopy(), nil
		}
		body, err := json.Marshal(object)
		sent := request{object, body}
		if err == nil && a.known.knows(sent, live) {
			return live.DeepCopy(), nil
		}
		at, fault := a.placeOf(ctx, desired)
		if fault != nil {
			return nil, fault
		}
		at.secrets = maskOf(at.key, desired, live)
		if err != nil {
			return nil, at.fault(Invalid, "it cannot be written as JSON", err)
		}
		return a.foresee(ctx, &at, sent, live)
	}
}

// foresee makes a dry run. What turns out to change nothing is remembered.
//
// The live object may be older than the one that the API server has by now, and
// the answer has what controllers have changed since. That is not what an apply
// changes, so the object is read again then.
func (a *Applier) foresee(ctx context.Context, at *place, sent request, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	raw, err := a.send(ctx, at, call{
		method: http.MethodPatch, path: at.path, contentType: types.ApplyYAMLPatchType, body: sent.body,
		query: url.Values{
			"fieldManager": {Manager}, "force": {"true"}, "dryRun": {metav1.DryRunAll},
			"fieldValidation": {metav1.FieldValidationIgnore},
		},
	})
	if err != nil {
		return nil, err
	}
	after, err := decode(raw)
	if err != nil {
		return nil, at.fault(Transient, err.Error(), nil)
	}
	isSame := live.GetResourceVersion() == after.GetResourceVersion()
	before := live
	if !isSame || live.GetAPIVersion() != after.GetAPIVersion() {
		if before, err = (&writing{Applier: a, place: *at}).read(ctx); err != nil {
			return nil, err
		}
	}
	if after.GetUID() != live.GetUID() || !sameContent(sent, before, after) {
		return after, nil
	}
	if isSame {
		a.known.learn(sent, live)
	} else {
		a.known.learn(sent, before)
	}
	return live.DeepCopy(), nil
}
