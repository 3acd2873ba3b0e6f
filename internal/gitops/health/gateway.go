package health

// gatewayGroup is the group of Gateway API.
const gatewayGroup = "gateway.networking.k8s.io"

// gatewayRoute is the rule for the routes of Gateway API that Argo CD has no rule for.
// It is that of its rule for HTTPRoutes: a parent of this generation that has accepted
// the route, and none that has refused it.
func gatewayRoute(o *object) *Status {
	current := false
	for _, parent := range o.status.groups("parents") {
		conditions := parent.conditions()
		if len(conditions) == 0 || !o.observedBy(conditions) {
			continue
		}
		current = true
		for _, kind := range []string{"ResolvedRefs", "Accepted"} {
			if c, found := find(conditions, kind); found && c.status == "False" {
				return degraded("Parent %s: %s", parent.group("parentRef").text("name"), c.explains(kind+" is False"))
			}
		}
	}
	if !current {
		return progressing("Waiting for the status of a parent")
	}
	return healthy("")
}

// listenerSet is the rule for ListenerSets, whose conditions are those of a Gateway.
// Listeners that are accepted can be programmed later.
func listenerSet(o *object) *Status {
	conditions := o.status.conditions()
	if len(conditions) == 0 || !o.observedBy(conditions) {
		return progressing("Waiting for the status of the Gateway")
	}
	if c, found := find(conditions, "Accepted"); found && c.status == "False" {
		return degraded("%s", c.explains("Accepted is False"))
	}
	if c, found := find(conditions, "Programmed"); !found || c.status != "True" {
		return progressing("%s", c.explains("Waiting for the listeners"))
	}
	return healthy("")
}

// observedBy reports whether conditions are about the current generation.
func (o *object) observedBy(conditions []condition) bool {
	for _, c := range conditions {
		if c.observed != 0 && c.observed != o.generation {
			return false
		}
	}
	return true
}
