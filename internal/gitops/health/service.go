package health

import (
	"encoding/json"
	"strings"
)

// hasAddress reports whether a load balancer has assigned an address. As in
// Argo CD, any entry counts.
func hasAddress(o *object) bool { return len(o.status.group("loadBalancer").list("ingress")) > 0 }

// service waits for the address of a load balancer. Services of other types are
// Healthy.
func service(o *object) *Status {
	if o.spec.text("type") != "LoadBalancer" || hasAddress(o) {
		return healthy("")
	}
	return progressing("Waiting for an address of the load balancer")
}

// volumeClaim follows the phase of a PersistentVolumeClaim.
func volumeClaim(o *object) *Status {
	switch phase := o.status.text("phase"); phase {
	case "Bound":
		return healthy("")
	case "Pending":
		return progressing("Waiting for a volume")
	case "Lost":
		return degraded("The volume is lost")
	default:
		return unknown("The phase is %q", phase)
	}
}

// autoscaler reads the conditions, which are at different places in each
// version of the API. The first pass is about failures only: AbleToScale can be
// True while metrics cannot be read.
func autoscaler(o *object) *Status {
	var conditions []condition
	switch o.kind.Version {
	case "v1":
		conditions = annotatedConditions(o.metadata.group("annotations").text("autoscaling.alpha.kubernetes.io/conditions"))
	case "v2":
		conditions = o.status.conditions()
	default:
		return unknown("version %s of HorizontalPodAutoscaler is not supported: use autoscaling/v2", o.kind.Version)
	}
	for _, c := range conditions {
		if autoscalerFails(c) {
			return degraded("%s", c.text())
		}
	}
	for _, c := range conditions {
		if c.status == "True" && (c.kind == "AbleToScale" || c.kind == "ScalingLimited") {
			return healthy("%s", c.message)
		}
	}
	return progressing("Waiting for the first scaling")
}

// autoscalerFails reports whether a condition means that the target or a metric
// cannot be read.
func autoscalerFails(c condition) bool {
	switch c.kind {
	case "AbleToScale":
		return c.reason == "FailedGetScale" || c.reason == "FailedUpdateScale"
	case "ScalingActive":
		return c.reason == "FailedComputeMetricsReplicas" || c.reason == "InvalidSelector" ||
			strings.HasPrefix(c.reason, "FailedGet") && strings.HasSuffix(c.reason, "Metric")
	}
	return false
}

// annotatedConditions parses the annotation of autoscaling/v1, which has no
// field for conditions.
func annotatedConditions(text string) []condition {
	var list []any
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return group{"conditions": list}.conditions()
}

// apiService waits for the condition Available.
func apiService(o *object) *Status {
	c, _ := find(o.status.conditions(), "Available")
	if c.status == "True" {
		return healthy("%s", c.message)
	}
	if c.kind == "" {
		return progressing("Waiting for the API to be available")
	}
	return progressing("%s", c.text())
}

// definition waits until a CustomResourceDefinition is served.
func definition(o *object) *Status {
	conditions := o.status.conditions()
	if len(conditions) == 0 {
		return progressing("Waiting for the names to be accepted")
	}
	is := func(kind, status string) (string, bool) {
		c, found := find(conditions, kind)
		return c.text(), found && c.status == status
	}
	if message, yes := is("Terminating", "True"); yes {
		return progressing("The kind is being removed: %s", message)
	}
	if message, yes := is("NamesAccepted", "False"); yes {
		return degraded("The names are not accepted: %s", message)
	}
	if message, yes := is("NonStructuralSchema", "True"); yes {
		return degraded("The schema cannot be used: %s", message)
	}
	// Conditions without Established are how a definition can start: Argo CD calls
	// them Degraded, which would fail the wave that applies it.
	established, found := find(conditions, "Established")
	switch {
	case established.status == "True":
		return healthy("")
	case !found || established.reason == "Installing":
		return progressing("Waiting for the kind to be served")
	}
	return degraded("The kind is not served: %s", established.text())
}

// disruptionBudget does not count too few healthy Pods: budgets that allow no
// disruption are in use.
func disruptionBudget(o *object) *Status {
	result := progressing("Waiting for a status")
	for _, c := range o.status.conditions() {
		if c.status == "False" && c.reason != "InsufficientPods" {
			return degraded("%s", c.text())
		}
		result = healthy("%s", c.reason)
	}
	return result
}
