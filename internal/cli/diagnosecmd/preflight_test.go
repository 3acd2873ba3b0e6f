package diagnosecmd_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

// TestPreflight: R32, R33, R34: against a real cluster and a real platform: a good
// start, a name that is taken, an account that is another, and the exit codes.
func TestPreflight(t *testing.T) {
	cluster := kubetest.Shared(t) // before the environment is cleaned
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	line := "preflight --kubeconfig " + cluster.Kubeconfig + " -n " + cluster.Namespace(t) + " --only P1,P2,P8,P9,P11,P12,P13,P27 "

	shown := w.Must(t, line+"--runtime prod")
	for _, want := range []string{"P1   k8s-version       ok", "P8   runtime-name      ok", "P11  account-admin     ok", "P12  account-match     skipped", "P27  egress            ok"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
	w.Fails(t, line+"--account "+strings.Repeat("0", 24), 1, "1 of 8 checks failed")

	w.Registered(t, "prod")
	got := w.Run(t, line+"--runtime prod -o json")
	var told struct{ Results []preflight.Result }
	if err := json.Unmarshal([]byte(got.Stdout), &told); err != nil || got.Code != 1 || len(told.Results) != 8 {
		t.Fatalf("%v: %+v", err, got)
	}
	for _, result := range told.Results {
		if failed := result.State == preflight.Failed; failed != (result.Code == preflight.RuntimeName) {
			t.Errorf("%+v", result)
		}
	}
	if after := w.Run(t, line+"--runtime prod --stage after"); after.Code != 0 {
		t.Errorf("after the install the name is the runtime's own: %+v", after)
	}
}

// TestPreflightFix: --fix shows what it does, does nothing unasked, and checks again.
func TestPreflightFix(t *testing.T) {
	cluster := kubetest.Shared(t) // before the environment is cleaned
	clitest.Clean(t)
	run := func(line string) clitest.Result {
		var stdout, stderr strings.Builder
		args := append([]string{"preflight", "--kubeconfig", cluster.Kubeconfig, "--mode", "ingress", "--host", "prod.example.com", "--class", "alb", "--only", "P14"}, strings.Fields(line)...)
		code := cli.Execute(t.Context(), args, &stdout, &stderr)
		return clitest.Result{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}
	}
	classes := cluster.Client.NetworkingV1().IngressClasses()
	t.Cleanup(func() { _ = classes.Delete(context.Background(), "alb", metav1.DeleteOptions{}) })
	if got := run(""); got.Code != 1 || !strings.Contains(got.Stdout, "fix: apply:") {
		t.Fatalf("%+v", got)
	}
	if got := run("--fix"); got.Code != 2 || !strings.Contains(got.Stderr, "controller: ingress.k8s.aws/alb") || !strings.Contains(got.Stderr, "--yes") {
		t.Fatalf("%+v", got)
	}
	if _, err := classes.Get(t.Context(), "alb", metav1.GetOptions{}); err == nil {
		t.Fatal("it was made unasked")
	}
	if got := run("--fix --yes"); got.Code != 0 || !strings.Contains(got.Stdout, "its controller is ingress.k8s.aws/alb") {
		t.Fatalf("%+v", got)
	}
	must.Get(classes.Get(t.Context(), "alb", metav1.GetOptions{}))(t)
}

// TestPreflightUsage: everything that is wrong with the command line is reported at once.
func TestPreflightUsage(t *testing.T) {
	clitest.Clean(t)
	var stdout, stderr strings.Builder
	code := cli.Execute(t.Context(), []string{"preflight", "--mode", "wire", "--stage", "during", "--only", "P99", "--provider", "moon"}, &stdout, &stderr)
	for _, want := range []string{"--mode", "--stage", "P99", "moon", "4 problems"} {
		if code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%d, without %q: %s", code, want, stderr.String())
		}
	}
}
