package preflight

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// minHelm is the oldest supported Helm: the first with OCI registries
	// (R11).
	minHelm = "3.8.0"
	// helmModule is the library that this program installs with.
	helmModule = "helm.sh/helm/"
)

// checkHelmVersion is P2: the Helm that installs the chart is 3.8.0 or newer.
// It is the embedded library unless another is configured.
func checkHelmVersion(_ context.Context, in *CheckContext, out *Report) {
	// slipway runtime install uses the library; users of helm give its
	// version.
	reported, whose := in.HelmVersion, "helm"
	if reported == "" {
		reported, whose = libraryVersion(), "the library of this program"
	}
	if reported == "" {
		out.skip("this program was built without the version of its Helm library, and no other was named")
		return
	}
	out.inspect("Helm %s (%s)", reported, whose)
	found, err := version.ParseGeneric(reported)
	switch {
	case err != nil:
		out.fail(whose, fmt.Sprintf("its version %q cannot be read", reported), "give what helm version --template '{{.Version}}' prints")
	case found.LessThan(version.MustParseGeneric(minHelm)):
		out.fail(whose, fmt.Sprintf("it is Helm %s, and %s or newer is needed: older ones read no charts from registries", reported, minHelm),
			"upgrade helm, or install with slipway runtime install NAME")
	}
}

// libraryVersion returns the version of the Helm library from the build info.
func libraryVersion() string {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	// The version is that of the linked module, which cannot be wrong.
	for _, module := range built.Deps {
		if strings.HasPrefix(module.Path, helmModule) {
			return module.Version
		}
	}
	return ""
}
