package gateway_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
)

// shortTests are the tests of the suite that make test runs: each profile, each kind
// and each kind of reference has one.
var shortTests = []string{
	"GatewayFrontendClientCertificateValidation", "GatewayHTTPListenerIsolation", "GatewayModifyListeners", "GatewayStaticAddresses",
	"HTTPRouteMatching", "HTTPRouteMultipleGateways", "HTTPRouteHTTPSListener", "HTTPRouteReferenceGrant", "HTTPRouteRedirectPath",
	"HTTPRouteRewritePath", "HTTPRouteRequestMirror", "HTTPRouteBackendProtocolWebSocket", "HTTPRouteInvalidCrossNamespaceBackendRef",
	"GRPCExactMethodMatching", "GRPCRouteWeight",
	"TLSRouteSimpleSameNamespace", "TLSRouteTerminateSimpleSameNamespace",
	"TCPRouteReferenceGrant", "TCPRouteWeightedRouting",
	"UDPRoute", "UDPRouteParentRefAttachAllListeners",
	"ListenerSetHTTPRouting", "ListenerSetHostnameConflict", "BackendTLSPolicy",
}

// runShort runs shortTests with the programs of a folder. The output of the suite is
// printed only if one of them did not pass.
func runShort(t *testing.T, folder string) {
	t.Helper()
	var output bytes.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(programs.Tail(output.String()))
		}
	})
	report := runSuite(t, startCluster(t, folder), folder, &output,
		fmt.Sprintf("-test.run=^TestConformance$/^(%s)$", strings.Join(shortTests, "|")), "--cleanup-base-resources=false")
	sums, _ := counts(t, report)
	t.Log("\n" + sums)
	for _, name := range shortTests {
		if !strings.Contains(output.String(), "--- PASS: TestConformance/"+name+" (") {
			t.Errorf("%s did not pass", name)
		}
	}
}

// buildPrograms compiles the suite and the programs of its backends, from the module
// that pins them, and returns their folder. The versions that the module shares with
// Slipway are the same, so most packages have been compiled already.
func buildPrograms(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	must.Do(t, binary.Touch("suite", ".")) // a cached result depends on it
	for _, words := range [][]string{
		{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", filepath.Join(folder, "suite"), "sigs.k8s.io/gateway-api/conformance"},
		{"build", "-ldflags=-s -w", "-o", folder + "/", "sigs.k8s.io/gateway-api/conformance/echo-basic", "./nameserver"},
	} {
		command := exec.CommandContext(t.Context(), "go", words...)
		command.Dir = "suite"
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", words[0], err, text)
		}
	}
	return folder
}
