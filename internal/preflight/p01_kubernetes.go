package preflight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// minKubernetes is the oldest supported Kubernetes (R10).
const minKubernetes = "1.23.0"

// checkKubernetesVersion is P1: the version of the API server is 1.23 or
// newer.
func checkKubernetesVersion(_ context.Context, in *CheckContext, out *Report) {
	out.inspect("GET /version")
	// Discovery needs no permissions, so it is the best probe of the API
	// server.
	reported, err := in.Cluster.Client.Discovery().ServerVersion()
	if err != nil {
		out.readError("the version of the API server", err)
		return
	}
	out.inspect("Kubernetes %s", reported.GitVersion)
	evaluateKubernetes(reported.GitVersion, out)
}

// evaluateKubernetes compares a version. Versions of clouds have suffixes,
// which ParseGeneric accepts.
func evaluateKubernetes(reported string, out *Report) {
	// Managed clusters add suffixes such as -gke.100 or +k3s1.
	found, err := version.ParseGeneric(reported)
	switch {
	case err != nil:
		out.warn("API server", fmt.Sprintf("its version %q cannot be read", reported), "check that it is "+minKubernetes+" or newer: kubectl version")
	case found.LessThan(version.MustParseGeneric(minKubernetes)):
		out.fail("API server", fmt.Sprintf("it is Kubernetes %s, and %s or newer is needed", reported, minKubernetes), "upgrade the cluster; kubectl version shows what it runs")
	}
}
