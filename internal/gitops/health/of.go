package health

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// HookFinalizer is what keeps a hook until its result was seen. An object that
// only waits for that is as its own status says.
const HookFinalizer = "argocd.argoproj.io/hook-finalizer"

// object is what the rules read.
type object struct {
	kind       schema.GroupVersionKind
	whole      group
	metadata   group
	spec       group
	status     group
	generation int64
}

// Of says how an object is. It is nil when the object does not tell, and Missing
// when there is no object. The time is that of the question: what is being
// deleted for too long is Degraded.
func Of(live *unstructured.Unstructured, now time.Time) *Status {
	if live == nil || live.Object == nil {
		return status(v1alpha1.Missing, "")
	}
	o := read(live)
	if result := o.deletion(now); result != nil {
		return result
	}
	if rule := ruleFor(o.kind.GroupKind()); rule != nil {
		return rule(o)
	}
	return byConditions(o)
}

func read(live *unstructured.Unstructured) *object {
	whole := group(live.Object)
	return &object{
		kind:  schema.FromAPIVersionAndKind(whole.text("apiVersion"), whole.text("kind")),
		whole: whole, metadata: whole.group("metadata"), spec: whole.group("spec"), status: whole.group("status"),
		generation: whole.group("metadata").number("generation"),
	}
}

// ruleFor is the rule of a kind; nil for kinds that have none of their own.
func ruleFor(kind schema.GroupKind) func(*object) *Status {
	switch kind.Group {
	case "apps", "extensions":
		switch kind.Kind {
		case "Deployment":
			return deployment
		case "StatefulSet":
			return statefulSet
		case "DaemonSet":
			return daemonSet
		case "ReplicaSet":
			return replicaSet
		case "Ingress":
			return ingress
		}
	case "":
		switch kind.Kind {
		case "Service":
			return service
		case "PersistentVolumeClaim":
			return volumeClaim
		case "Pod":
			return pod
		}
	case "batch":
		switch kind.Kind {
		case "Job":
			return job
		case "CronJob":
			return cronJob
		}
	case v1alpha1.Group:
		switch kind.Kind {
		case v1alpha1.KindApplication:
			return application
		case v1alpha1.KindApplicationSet:
			return applicationSet
		case "Workflow":
			return workflow
		case kindRollout:
			return rollout
		}
	default:
		return rareRules()[kind]
	}
	return nil
}

// rareRules are those of groups with one kind each.
func rareRules() map[schema.GroupKind]func(*object) *Status {
	return map[schema.GroupKind]func(*object) *Status{
		{Group: "networking.k8s.io", Kind: "Ingress"}:                     ingress,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           autoscaler,
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:             apiService,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: definition,
		{Group: "policy", Kind: "PodDisruptionBudget"}:                    disruptionBudget,
	}
}

// deletion is the status of an object that is being deleted; nil for others.
func (o *object) deletion(now time.Time) *Status {
	if !o.metadata.has("deletionTimestamp") {
		return nil
	}
	var finalizers []string
	for _, element := range o.metadata.list("finalizers") {
		if name, ok := element.(string); ok {
			finalizers = append(finalizers, name)
		}
	}
	if slices.Contains(finalizers, HookFinalizer) {
		return nil
	}
	result := progressing("Pending deletion")
	if len(finalizers) > 0 {
		result = progressing("Pending deletion, which waits for the finalizers %s", strings.Join(finalizers, ", "))
	}
	since, err := time.Parse(time.RFC3339, o.metadata.text("deletionTimestamp"))
	if err != nil {
		return result
	}
	return o.expire(result, since, now)
}
