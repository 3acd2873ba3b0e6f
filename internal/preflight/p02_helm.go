package preflight

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// leastHelm is the oldest Helm: the first that reads charts from registries (R11).
	leastHelm = "3.8.0"
	// helmModule is the library that this program installs with.
	helmModule = "helm.sh/helm/"
)

// checkHelmVersion is P2: the Helm that will install the chart, which is the
// library in this program unless another was named. It passes from 3.8.0 on.
func checkHelmVersion(_ context.Context, in *Inquiry, out *Report) {
	told, whose := in.HelmVersion, "helm"
	if told == "" {
		told, whose = libraryVersion(), "the library of this program"
	}
	if told == "" {
		out.skip("this program was built without the version of its Helm library, and no other was named")
		return
	}
	out.look("Helm %s (%s)", told, whose)
	found, err := version.ParseGeneric(told)
	switch {
	case err != nil:
		out.fail(whose, fmt.Sprintf("its version %q cannot be read", told), "give what helm version --template '{{.Version}}' prints")
	case found.LessThan(version.MustParseGeneric(leastHelm)):
		out.fail(whose, fmt.Sprintf("it is Helm %s, and %s or newer is needed: older ones read no charts from registries", told, leastHelm),
			"upgrade helm, or install with slipway runtime install")
	}
}

func libraryVersion() string {
	built, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range built.Deps {
		if strings.HasPrefix(module.Path, helmModule) {
			return module.Version
		}
	}
	return ""
}
