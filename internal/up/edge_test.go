package up

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// Neither the cluster that we run in nor options of the user's reach the edge and the agent.
func TestRoleEnvironment(t *testing.T) {
	own := []string{
		"HOME=/home/me", "SLIPWAY_LOG_LEVEL=debug", "slipway_configFile=/etc/other.yaml", "KUBECONFIG=/home/me/.kube/config",
		"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443", "POD_NAMESPACE=other", "PATH=/bin",
	}
	got := roleEnvironment(own, "/state/kubeconfig")
	if want := []string{"HOME=/home/me", "PATH=/bin", "KUBECONFIG=/state/kubeconfig"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if own[1] != "SLIPWAY_LOG_LEVEL=debug" {
		t.Error("the environment of the process was changed")
	}
}

func TestNotReady(t *testing.T) {
	for text, want := range map[string]string{
		"ready\n": "",
		"":        "",
		"not ready\nroutes: the first routes are not live yet\n": "routes: the first routes are not live yet",
		"not ready\na: b\nc: d\n":                                "a: b; c: d",
	} {
		if got := notReady(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestShowEdge(t *testing.T) {
	c := must.Get(startChild(fakeProgram("silent")))(t)
	defer c.stop(testDeadline, nil)
	for _, test := range []struct {
		name   string
		host   string
		serves bool
		route  string
		want   []string // commands, as far as they are the edge's own
	}{
		{"demo", "demo.localhost", true, "demo.localhost", []string{
			"curl http://demo.localhost:8180/api", "curl http://demo.localhost:8100/api", "kubectl", "kubectl",
			"KUBECONFIG=/state/kubeconfig '/a b/slipway' explain http://demo.localhost:8180/api"}},
		{"demo without a route", "demo.localhost", true, "", []string{"curl http://demo.localhost:8180/api", "kubectl", "kubectl", "KUBECONFIG="}},
		{"hosts of the user's", "shop.example.com", true, "route.example.com", []string{
			"curl --resolve shop.example.com:8180:127.0.0.1 http://shop.example.com:8180/api",
			"curl --resolve route.example.com:8100:127.0.0.1 http://route.example.com:8100/api", "kubectl", "kubectl", "KUBECONFIG="}},
		{"demo that does not answer", "demo.localhost", false, "", []string{"kubectl", "kubectl", "KUBECONFIG="}},
		{"no Ingress", "", false, "demo.localhost", []string{"curl http://demo.localhost:8100/api", "kubectl", "kubectl"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &scene{options: Options{PortOffset: 100, Executable: "/a b/slipway"}, kubeconfig: "/state/kubeconfig"}
			s.edge = edgeStatus{child: c, host: test.host, serves: test.serves, routeHost: test.route, routeServes: test.route != ""}
			row, hints := showEdge(s)
			if row.Address != "http://127.0.0.1:8180" || !strings.Contains(row.Detail, "https://127.0.0.1:8543") || row.PID != c.pid() {
				t.Errorf("the row is %+v", row)
			}
			same := func(hint Hint, want string) bool { return strings.HasPrefix(hint.Command, want) }
			if !slices.EqualFunc(hints, test.want, same) {
				t.Errorf("hints are %q, want %q", hints, test.want)
			}
		})
	}
}

// A part that logs to its standard error has a log of each run, and its end is
// explained with it.
func TestCapturedLog(t *testing.T) {
	p := fakeProgram("refuse")
	p.log, p.logs = filepath.Join(t.TempDir(), "edge", "edge.log"), true
	for run := range 3 {
		if run == 1 {
			put(t, filepath.Dir(p.log), "edge.log", "a line of an earlier run\n")
		}
		c := must.Get(startChild(p))(t)
		programs.Receive(t, c.exited, "end")
		explained := death("edge", c)
		requireText(t, explained, "edge ended by itself (exit status 1)", "the end of "+p.log, "in use by pid 4711")
		if strings.Contains(explained.Error(), "earlier run") {
			t.Errorf("the message quotes an earlier run: %v", explained)
		}
	}
	if info, err := os.Stat(p.log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log: %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(p.log + ".1"); err != nil {
		t.Errorf("the log of the run before is gone: %v", err)
	}
}
