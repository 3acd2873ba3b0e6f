package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// leastKubernetes is the oldest Kubernetes (R10).
const leastKubernetes = "1.23.0"

// checkKubernetesVersion is P1: the version that the API server tells. It passes
// from 1.23 on.
func checkKubernetesVersion(_ context.Context, in *Inquiry, out *Report) {
	out.look("GET /version")
	told, err := in.Cluster.Client.Discovery().ServerVersion()
	if err != nil {
		out.unseen("the version of the API server", err)
		return
	}
	out.look("Kubernetes %s", told.GitVersion)
	judgeKubernetes(told.GitVersion, out)
}

func judgeKubernetes(told string, out *Report) {
	found, err := version.ParseGeneric(told)
	switch {
	case err != nil:
		out.warn("API server", fmt.Sprintf("its version %q cannot be read", told), "see that it is "+leastKubernetes+" or newer: kubectl version")
	case found.LessThan(version.MustParseGeneric(leastKubernetes)):
		out.fail("API server", fmt.Sprintf("it is Kubernetes %s, and %s or newer is needed", told, leastKubernetes), "upgrade the cluster; kubectl version shows what it runs")
	}
}
