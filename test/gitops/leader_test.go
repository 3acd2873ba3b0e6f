package gitops

import (
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

const (
	// works is what the agent that leads says.
	works = "became leader"
	// takeOver is how long the Applications may have no agent after one was
	// killed, and handOver after one ended in good order, which the other sees
	// when it looks at the Lease the next time.
	takeOver = 20 * time.Second
	handOver = 10 * time.Second
)

// testLeader: of two agents one works. The other takes over in time when it is
// killed, and at once when it ends in good order.
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
	if took > takeOver {
		t.Errorf("it took %s to take over from one that was killed", took)
	}

	third := s.start(t, control)
	third.AwaitLog(t, `"server":"health"`)
	if third.Logged(works) {
		t.Fatal("two agents work at a time")
	}
	second.Stop(t)
	ended := time.Now()
	repository.Commit(t, settings("after the second ended"), "change")
	third.AwaitLog(t, works)
	took = time.Since(ended)
	live()
	t.Logf("after SIGTERM the third works after %s, and a push is live after %s", took.Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
	if took > handOver {
		t.Errorf("it took %s to take over from one that ended in good order", took)
	}
}
