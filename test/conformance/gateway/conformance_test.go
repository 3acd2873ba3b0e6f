// Package gateway runs the conformance suite of the Gateway API against
// `slipway edge`: the upstream suite as its module has it, with its own flags, on
// the development cluster, without a network.
//
// The backends of its manifests are programs: the suite's own echo server, and
// CoreDNS. Each Pod has a network namespace, as in a real cluster, and each
// Gateway an address that is local in the private network of the test.
//
// Without a variable a part of the suite runs, for make test: shortTests. make
// conformance runs all of it; docs/conformance has its last report.
package gateway_test

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

// Variables of make conformance.
const (
	// variablePrograms is the folder with the compiled suite and the programs
	// of its backends. All tests run then.
	variablePrograms = "CONFORMANCE_PROGRAMS"
	// variableFlags are further flags of the suite.
	variableFlags = "CONFORMANCE_FLAGS"
	// variableVersion is the version of Slipway in the report.
	variableVersion = "CONFORMANCE_VERSION"
	// variableDefinitions is the folder of the CRDs, for a suite of another version
	// than that of this repository's module.
	variableDefinitions = "CONFORMANCE_DEFINITIONS"
)

// keptReport is the report of the last run of all tests.
const keptReport = "../../../docs/conformance/gateway-api-v1.6.3.yaml"

// gatewayClass is the class that the suite uses for its Gateways.
const gatewayClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
`

func TestMain(m *testing.M) { kubetest.Main(m) }

// TestConformance runs the suite and prints the counts of its report. A test of
// the suite that fails, fails this one.
func TestConformance(t *testing.T) {
	folder := os.Getenv(variablePrograms)
	if folder == "" {
		runShort(t, buildPrograms(t))
		return
	}
	report := runSuite(t, startCluster(t, folder), folder, os.Stdout, "-test.run=^TestConformance$")
	sums, all := counts(t, report)
	t.Log("\n" + sums)
	// The report of a part, of another version, or of a suite that could not begin,
	// does not replace the one of all tests.
	if os.Getenv(variableFlags) == "" && os.Getenv(variableDefinitions) == "" && all > 0 {
		must.Do(t, os.WriteFile(keptReport, report, 0o644))
	}
}

// startCluster starts a cluster for the programs of a folder, and an edge.
func startCluster(t *testing.T, folder string) *kubetest.Cluster {
	t.Helper()
	echo := filepath.Join(folder, "echo-basic")
	cluster := kubetest.Start(t, kubetest.Programs(map[string]string{
		"registry.k8s.io/gateway-api/echo-basic":             echo,
		"registry.k8s.io/gateway-api/conformance/echo-basic": echo, // since v1.7
		"registry.k8s.io/coredns/coredns":                    filepath.Join(folder, "nameserver"),
	}))
	cluster.DefineFiles(t, definitions(t))
	cluster.Apply(t, "", gatewayClass)
	startEdge(t, cluster, filepath.Join(folder, "edge.log"))
	return cluster
}

// definitions returns a pattern for the CRDs of the experimental channel, of the
// version that the suite checks for. It leaves out the policy for upgrades.
func definitions(t *testing.T) string {
	t.Helper()
	const files = "gateway.networking.k8s.io_[^v]*.yaml"
	if folder := os.Getenv(variableDefinitions); folder != "" {
		return filepath.Join(folder, files)
	}
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	command.Dir = "suite"
	module := strings.TrimSpace(string(must.Get(command.Output())(t)))
	return filepath.Join(module, "config", "crd", "experimental", files)
}

// startEdge starts an edge with the Gateway provider. The addresses for Gateways
// are local in the private network. The log is kept in a file.
func startEdge(t *testing.T, cluster *kubetest.Cluster, log string) {
	t.Helper()
	edge := programs.Slipway(t, "the edge", binary.Path(t), []string{"KUBECONFIG=" + cluster.Kubeconfig},
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--entryPoints.web.address=127.0.0.1:0", "--providers.kubernetesIngress=true",
		"--providers.kubernetesGateway.addresses=10.244.254.0/24", "--providers.kubernetesGateway.addressesPerNamespace=0", "--providers.kubernetesGateway.services")
	t.Cleanup(func() { must.Do(t, os.WriteFile(log, []byte(edge.Log.String()), 0o644)) })
	edge.Address(t, "health")
}

// runSuite runs the suite of a folder and returns its report; its output goes to
// out. The flags are those that any implementation gives it. Mesh is exempt because it is about
// sidecars and has profiles of its own. The second address is of TEST-NET-2,
// which no machine has.
func runSuite(t *testing.T, cluster *kubetest.Cluster, folder string, out io.Writer, more ...string) []byte {
	t.Helper()
	report := filepath.Join(folder, "report.yaml")
	must.Do(t, os.RemoveAll(report)) // of an earlier run
	command := exec.CommandContext(t.Context(), filepath.Join(folder, "suite"), append([]string{
		"-test.v", "--gateway-class=slipway",
		"--conformance-profiles=GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP",
		"--all-features", "--exempt-features=Mesh",
		"--usable-address=10.244.254.200", "--unusable-address=198.51.100.1",
		"--report-output=" + report, "--organization=slipway.dev", "--project=slipway", "--url=https://slipway.dev",
		"--version=" + cmp.Or(os.Getenv(variableVersion), "unknown"), "--contact=https://slipway.dev",
	}, append(more, strings.Fields(os.Getenv(variableFlags))...)...)...)
	command.Env = append(programs.UserEnvironment(), "KUBECONFIG="+cluster.Kubeconfig)
	command.Stdout, command.Stderr = out, out
	if err := command.Run(); err != nil {
		t.Errorf("the suite ended with %v", err)
	}
	return must.Get(os.ReadFile(report))(t)
}
