package release

import (
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The annotations of a Deployment during a release: the pod-template-hash of the
// stable revision, and the sync to go back to. They are written by the same
// request as the new template, so that a release is either begun or not.
const (
	stableAnnotation = "slipway.dev/release-stable"
	fromAnnotation   = "slipway.dev/release-from"
)

// unavailable is a minReadySeconds that no Pod of a release reaches: Pods of the
// canary are ready, and so get requests, but are not available, so that the
// Deployment controller takes no Pod of the stable revision away.
const unavailable = 30 * 24 * 60 * 60

// Mark is what a Deployment has of its release.
type Mark struct {
	// Stable is the pod-template-hash of the stable revision; empty if no release
	// runs.
	Stable string
	// From is the id of the sync to go back to, in the history of the Application;
	// negative if there is none.
	From int64
}

// MarkOf returns the mark of a live Deployment.
func MarkOf(deployment *unstructured.Unstructured) Mark {
	annotations := deployment.GetAnnotations()
	from, err := strconv.ParseInt(annotations[fromAnnotation], 10, 64)
	if err != nil {
		from = -1
	}
	return Mark{Stable: annotations[stableAnnotation], From: from}
}

// KeepOverlay lays the overlay of a live Deployment over the one of Git, so that a
// comparison during a release shows only what the next sync would change.
func KeepOverlay(desired, live *unstructured.Unstructured) {
	found := live.GetAnnotations()
	if found[stableAnnotation] == "" {
		return
	}
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[stableAnnotation], annotations[fromAnnotation] = found[stableAnnotation], found[fromAnnotation]
	desired.SetAnnotations(annotations)
	from, _ := live.Object["spec"].(map[string]any)
	to, _ := desired.Object["spec"].(map[string]any)
	for _, field := range []string{"strategy", "minReadySeconds", "progressDeadlineSeconds"} {
		if value, ok := from[field]; ok && to != nil {
			to[field] = runtime.DeepCopyJSONValue(value)
		}
	}
}

// Overlay is laid over the Deployment of Git while a release runs.
type Overlay struct {
	Mark
	// Percent is the size of the canary.
	Percent int32
}

// Apply writes the overlay into a Deployment.
func (o *Overlay) Apply(deployment *unstructured.Unstructured) error {
	annotations := deployment.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[stableAnnotation] = o.Stable
	annotations[fromAnnotation] = strconv.FormatInt(o.From, 10)
	deployment.SetAnnotations(annotations)
	spec, ok := deployment.Object["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("Deployment %s has no spec", deployment.GetName())
	}
	spec["strategy"] = map[string]any{
		"type":          "RollingUpdate",
		"rollingUpdate": map[string]any{"maxSurge": fmt.Sprintf("%d%%", o.Percent), "maxUnavailable": int64(0)},
	}
	spec["minReadySeconds"] = int64(unavailable)
	// The greatest number is none.
	spec["progressDeadlineSeconds"] = int64(math.MaxInt32)
	return nil
}
