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
		if err == nil && a.known.knows(body, live) {
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
		return a.foresee(ctx, &at, body, live)
	}
}

// foresee makes a dry run. What turns out to change nothing is remembered.
func (a *Applier) foresee(ctx context.Context, at *place, body []byte, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	raw, err := a.send(ctx, at, call{
		method: http.MethodPatch, path: at.path, contentType: types.ApplyYAMLPatchType, body: body,
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
	before := live
	if live.GetAPIVersion() != after.GetAPIVersion() {
		w := &writing{Applier: a, place: *at}
		if before, err = w.read(ctx); err != nil {
			return nil, err
		}
	}
	if after.GetUID() != before.GetUID() || !equal(contentOf(before), contentOf(after)) {
		return after, nil
	}
	a.known.learn(live.GetUID(), body, live)
	if before != live {
		return live.DeepCopy(), nil
	}
	return after, nil
}
