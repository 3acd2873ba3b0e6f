package health

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// HookFinalizer keeps a hook until its result was read. An object that only
// waits for that has the health of its own status.
const HookFinalizer = "argocd.argoproj.io/hook-finalizer"

// object is the input of the rules.
type object struct {
	// kind decides the rule; the groups are the parts that rules read.
	kind       schema.GroupVersionKind
	whole      group
	metadata   group
	spec       group
	status     group
	generation int64
}

// byRule returns the health by the rule of the kind.
func (o *object) byRule(now time.Time, failed onFailure) *Status {
	if rule := ruleFor(o.kind.GroupKind()); rule != nil {
		return rule(o)
	}
	if rule := upstream().find(o.kind.GroupKind()); rule != nil {
		result, err := rule.of(o, now)
		if err != nil {
			return failed(err, func() *Status { return byConditions(o) })
		}
		return result
	}
	return byConditions(o)
}

// read splits an object into its parts.
func read(live *unstructured.Unstructured) *object {
	whole := group(live.Object)
	return &object{
		kind:  schema.FromAPIVersionAndKind(whole.text("apiVersion"), whole.text("kind")),
		whole: whole, metadata: whole.group("metadata"), spec: whole.group("spec"), status: whole.group("status"),
		generation: whole.group("metadata").number("generation"),
	}
}

// rules are the rules in Go, by kind: for kinds that every cluster has, and where
// ours differ on purpose. They take a fraction of the time of a script. Kinds
// without one have Argo CD's script, or are judged by their conditions.
var rules = map[schema.GroupKind]func(*object) *Status{
	{Group: "", Kind: "Service"}:                                      service,
	{Group: "", Kind: "PersistentVolumeClaim"}:                        volumeClaim,
	{Group: "", Kind: "Pod"}:                                          pod,
	{Group: "apps", Kind: "Deployment"}:                               deployment,
	{Group: "apps", Kind: "StatefulSet"}:                              statefulSet,
	{Group: "apps", Kind: "DaemonSet"}:                                daemonSet,
	{Group: "apps", Kind: "ReplicaSet"}:                               replicaSet,
	{Group: "batch", Kind: "Job"}:                                     job,
	{Group: "batch", Kind: "CronJob"}:                                 cronJob,
	{Group: "networking.k8s.io", Kind: "Ingress"}:                     ingress,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           autoscaler,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             apiService,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: definition,
	{Group: "policy", Kind: "PodDisruptionBudget"}:                    disruptionBudget,
	{Group: gatewayGroup, Kind: "TLSRoute"}:                           gatewayRoute,
	{Group: gatewayGroup, Kind: "TCPRoute"}:                           gatewayRoute,
	{Group: gatewayGroup, Kind: "UDPRoute"}:                           gatewayRoute,
	{Group: gatewayGroup, Kind: "ListenerSet"}:                        listenerSet,
	{Group: v1alpha1.Group, Kind: v1alpha1.KindApplication}:           application,
	{Group: v1alpha1.Group, Kind: "Workflow"}:                         workflow,
	{Group: v1alpha1.Group, Kind: kindRollout}:                        rollout,
}

// ruleFor returns the rule of a kind; nil for kinds without one. extensions is
// the group of old clusters, with the kinds of two others.
func ruleFor(kind schema.GroupKind) func(*object) *Status {
	if kind.Group == "extensions" {
		kind.Group = "apps"
		if kind.Kind == "Ingress" {
			kind.Group = "networking.k8s.io"
		}
	}
	return rules[kind]
}

// deletion is the health of an object that is being deleted; nil for others. A
// deletion that takes too long becomes Degraded in expire, so that a prune does
// not wait for ever.
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
	// An invalid time never expires.
	since, err := time.Parse(time.RFC3339, o.metadata.text("deletionTimestamp"))
	if err != nil {
		return result
	}
	return o.expire(result, since, now)
}
