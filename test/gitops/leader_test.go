package gitops

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// works is what the agent that leads logs.
const works = "became leader"

// testLeader: of two agents one works. The other takes over when it is killed, and
// without waiting for the end of the Lease when it ends in good order.
func (s *suite) testLeader(t *testing.T) {
	control, target := s.cluster.Namespace(t), s.cluster.Namespace(t)
	repository := gittest.Serve(t).Repository(t, "app", settings("first"))
	first := s.start(t, control)
	first.AwaitLog(t, works)
	second := s.start(t, control)
	s.application(t, control, target, "app", mainOf(repository))
	live := func() {
		t.Helper()
		agentprocess.Await(t, s.applications(control), "app", agentprocess.InOrder(repository.Head(t)))
	}
	live()
	if second.Logged(works) {
		t.Fatal("two agents work at a time")
	}

	first.Kill()
	killed := time.Now()
	repository.Commit(t, settings("after the first was killed"), "change")
	second.AwaitLog(t, works)
	took := time.Since(killed)
	live()
	t.Logf("after kill -9 the second works after %s, and a push is live after %s", took.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))

	third := s.start(t, control)
	third.AwaitLog(t, `"server":"health"`)
	if third.Logged(works) {
		t.Fatal("two agents work at a time")
	}
	held := s.leaders(t, control)
	second.Stop(t)
	ended := time.Now()
	if now := s.leaders(t, control); len(held) != 1 || slices.Equal(now, held) {
		t.Errorf("the Lease of %v was not released: %v", held, now)
	}
	repository.Commit(t, settings("after the second ended"), "change")
	third.AwaitLog(t, works)
	took = time.Since(ended)
	live()
	t.Logf("after SIGTERM the third works after %s, and a push is live after %s", took.Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
}

// leaders returns the holders of the Leases of a control namespace.
func (s *suite) leaders(t *testing.T, control string) (holders []string) {
	t.Helper()
	leases := must.Get(s.cluster.Client.CoordinationV1().Leases(control).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range leases.Items {
		if holder := leases.Items[i].Spec.HolderIdentity; holder != nil {
			holders = append(holders, *holder)
		}
	}
	return holders
}
