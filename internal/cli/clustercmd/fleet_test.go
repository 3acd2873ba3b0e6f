package clustercmd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// fleetWorld is a platform with a runtime that is joined through its tunnel:
// real processes and a real API server. The embedded PlatformWorld runs the
// commands of the user.
type fleetWorld struct {
	*clitest.PlatformWorld
	Apps *clitest.AppWorld
}

// newFleetWorld starts a platform, signs its admin in, and joins the runtime
// prod to it. The platform is started after the cluster, so that it stops
// first.
func newFleetWorld(t *testing.T) *fleetWorld {
	t.Helper()
	apps := clitest.NewAppWorld(t)
	w := &fleetWorld{PlatformWorld: clitest.NewPlatformWorld(t), Apps: apps}
	w.Login(t)
	w.join(t, "prod")
	return w
}

// join runs an agent as a runtime, and waits until the platform reaches it
// through the tunnel. The runtime registers with a key of its own scope.
func (w *fleetWorld) join(t *testing.T, name string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(key, []byte(w.Must(t, "api-key create join-"+name+" --scope runtime-register")), 0o600))
	w.Apps.StartAgent(t, "--access.address=127.0.0.1:0", "--platform.url="+w.Url, "--platform.keyFile="+key, "--runtime.name="+name)
	w.Until(t, "cluster list --runtime "+name, func(got clitest.Result) bool { return got.Code == 0 })
}

// Until retries a command line until its result is right, and fails the test
// with the last result after clitest.AppPatience. It polls, because the result of a
// command has nothing to watch.
func (w *fleetWorld) Until(t *testing.T, line string, right func(clitest.Result) bool) clitest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.AppTimeout)
	defer cancel()
	for {
		got := w.Run(t, line)
		if right(got) {
			return got
		}
		if backoff.Sleep(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("%s: %+v", line, got)
		}
	}
}

// Granted lists the objects of a cluster addition that exist now, in a fixed
// order, as one text that a test can compare.
func (w *fleetWorld) Granted(t *testing.T) string {
	t.Helper()
	var found []string
	client, name := w.Apps.Client, "slipway-manager"
	// A missing object is no failure: that is what tests of undo and removal
	// check.
	note := func(what string, err error) {
		if err == nil {
			found = append(found, what)
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	_, err := client.CoreV1().ServiceAccounts(w.Apps.TestNamespace).Get(t.Context(), name, metav1.GetOptions{})
	note("account", err)
	_, err = client.RbacV1().ClusterRoleBindings().Get(t.Context(), name, metav1.GetOptions{})
	note("cluster-binding", err)
	_, err = client.RbacV1().Roles(w.Apps.TestNamespace).Get(t.Context(), name, metav1.GetOptions{})
	note("role", err)
	_, err = client.RbacV1().RoleBindings(w.Apps.TestNamespace).Get(t.Context(), name+"-token", metav1.GetOptions{})
	note("token-binding", err)
	return strings.Join(found, " ")
}

// RemoveClusters checks the refusals of cluster remove, then removes the
// cluster far with --clean-up and checks that nothing is left of it. target has
// the flags that select its kubeconfig.
func (w *fleetWorld) RemoveClusters(t *testing.T, target string) {
	t.Helper()
	w.Fails(t, "cluster remove", 2, "by its name, or by --server-url")
	w.Fails(t, "cluster remove nothing --yes", 1, "has no cluster nothing")
	w.Fails(t, "cluster remove in-cluster --yes --clean-up"+target, 2, "choose its --context")
	w.Fails(t, "cluster remove far", 2, "--yes")
	got := w.Run(t, "cluster remove --server-url "+w.Apps.Config.Host+" --yes --clean-up"+target)
	if got.Code != 0 || strings.Count(got.Stderr, "is deleted") != 5 {
		t.Errorf("remove: %+v", got)
	}
	if got := w.Granted(t); got != "" {
		t.Errorf("left %q", got)
	}
	w.Until(t, "cluster list", func(got clitest.Result) bool { return !strings.Contains(got.Stdout, "far") })
}

// ReportShop registers another runtime and reports an Application shop from it,
// so that the name is ambiguous. No agent runs for it.
func (w *fleetWorld) ReportShop(t *testing.T, runtime string) {
	t.Helper()
	agent := w.Registered(t, runtime)
	events := []*platformv1.ReportEvent{
		{Number: 1, Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}},
		{Number: 2, Event: &platformv1.ReportEvent_Application{Application: &platformv1.Application{Namespace: "argocd", Name: "shop", Uid: "u", Sync: "Synced", Health: "Healthy"}}},
		{Number: 3, Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}},
	}
	response, err := agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: "s", Events: events}))
	if err != nil || response.Msg.GetStored() != 3 {
		t.Fatalf("%v, %v", response, err)
	}
}
