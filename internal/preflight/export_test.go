package preflight

import "slipway.dev/slipway/internal/access/mode"

// EndpointIn is endpointIn.
func EndpointIn(text string) (string, bool) { return endpointIn(text) }

// ImageIs is imageIs.
func ImageIs(image string, names []string) bool { return imageIs(image, names) }

// Verbs of the rights that an install may ask for, by group and resource.
func RightsByResource() map[[2]string][]string {
	all := map[[2]string][]string{}
	for _, chosen := range []mode.Mode{mode.Tunnel, mode.Ingress, mode.HTTPRoute, mode.Mesh} {
		for _, one := range rightsFor(chosen, false) {
			all[[2]string{one.group, one.resource}] = one.verbs
		}
	}
	return all
}

// JudgeKubernetes is how P1 judges a version.
func JudgeKubernetes(reported string) State {
	report := &Report{code: KubernetesVersion}
	evaluateKubernetes(reported, report)
	return report.result().State
}
