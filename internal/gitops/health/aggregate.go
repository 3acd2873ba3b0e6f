package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// IgnoreAnnotation set to true excludes an object from the health of its
// Application.
const IgnoreAnnotation = "argocd.argoproj.io/ignore-healthcheck"

// Ignored reports whether an object is excluded from the health of its
// Application.
func Ignored(live *unstructured.Unstructured) bool {
	if live == nil {
		return false
	}
	return group(live.Object).group("metadata").group("annotations").text(IgnoreAnnotation) == "true"
}

// Resource is one object of an Application.
type Resource struct {
	Group     string
	Kind      string
	Namespace string
	Name      string
	// Live is set if the object exists in the cluster.
	Live bool
	// Hook is set for hooks, and for objects that are never applied.
	Hook bool
	// Ignored is that of the live object.
	Ignored bool
	// Self is set for the Application itself, where it manages itself.
	Self bool
	// Health is that of the live object.
	Health *Status
}

// Aggregate returns the health of an Application: the worst of its objects,
// with the first of these as the message. As in Argo CD, missing objects do not
// count unless all are missing, as the Application is OutOfSync then; neither
// do child Applications that are Missing or Unknown.
func Aggregate(resources []Resource) Status {
	result := Status{Code: v1alpha1.Healthy}
	expected, live := false, false
	for i := range resources {
		r := &resources[i]
		if r.Hook {
			continue
		}
		expected = true
		live = live || r.Live
		// Missing objects make the Application OutOfSync, and not Degraded.
		if !r.Live || r.Ignored || r.Self || r.Health == nil || r.isUncountedChild() {
			continue
		}
		if Worse(r.Health.Code, result.Code) {
			result = Status{Code: r.Health.Code, Message: r.describe()}
		}
	}
	// Nothing is there at all: the Application was never synced, or everything
	// was deleted.
	if expected && !live && Worse(v1alpha1.Missing, result.Code) {
		return Status{Code: v1alpha1.Missing, Message: "none of the objects is in the cluster"}
	}
	return result
}

// isUncountedChild reports whether it is such a child Application.
func (r *Resource) isUncountedChild() bool {
	return r.Group == v1alpha1.Group && r.Kind == v1alpha1.KindApplication &&
		(r.Health.Code == v1alpha1.Missing || r.Health.Code == v1alpha1.Unknown)
}

// describe returns the object and its health as a message.
func (r *Resource) describe() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + r.Name
	}
	text := r.Kind + " " + name + " is " + string(r.Health.Code)
	if r.Health.Message != "" {
		text += ": " + r.Health.Message
	}
	return shortened(text)
}
