package preflight

// EndpointIn is endpointIn.
func EndpointIn(text string) (string, bool) { return endpointIn(text) }

// ImageIs is imageIs.
func ImageIs(image string, names []string) bool { return imageIs(image, names) }

// RightsByResource returns the verbs of the permissions for objects, by group
// and resource.
func RightsByResource(objects []Object) map[[2]string][]string {
	all := map[[2]string][]string{}
	for _, one := range rightsFor(objects, "slipway") {
		all[[2]string{one.group, one.resource}] = one.verbs
	}
	return all
}

// JudgeKubernetes is how P1 judges a version.
func JudgeKubernetes(reported string) State {
	report := &Report{code: KubernetesVersion}
	evaluateKubernetes(reported, report)
	return report.result().State
}
