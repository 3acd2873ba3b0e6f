package gitops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// kills is how often the agent is killed.
func kills(t *testing.T) int64 {
	if os.Getenv("RESILIENCE") == "long" {
		return programs.Setting(t, "RESILIENCE_ROUNDS", int64(100))
	}
	return programs.Setting(t, "RESILIENCE_ROUNDS", int64(8))
}

// testKill pushes one revision after the other. While each is synced, the agent
// is killed once at a random point, and started again.
func (s *suite) testKill(t *testing.T) {
	seed := programs.Setting(t, "RESILIENCE_SEED", time.Now().UnixNano())
	t.Logf("RESILIENCE_SEED=%d repeats the random choices", seed)
	v := &victim{suite: s, control: s.cluster.Namespace(t), target: s.cluster.Namespace(t), random: rand.New(rand.NewPCG(uint64(seed), 1))}
	// What was fetched outlives the agent, half written files too.
	v.given = s.options(v.control, "--sources.cacheDir="+t.TempDir())
	v.recorder = agentprocess.Record(t, s.cluster.Cluster, v.target)
	v.repository = gittest.Serve(t).Repository(t, "app", revision(0))
	v.agent = agentprocess.Start(t, v.given)
	s.application(t, v.control, v.target, v.repository)
	s.synced(t, v.control, v.repository.Head(t))
	check(t, v.recorder, 0)
	v.measure(t, 1)
	for round := 2; round < 2+int(kills(t)); round++ {
		v.round(t, round)
		if t.Failed() {
			t.Fatalf("stopped after round %d", round)
		}
	}
	t.Logf("%d kills: after each the cluster was what Git says after %s at most; %d hooks ran twice, nothing that stays was deleted",
		kills(t), v.slowest.Round(time.Millisecond), repeated(v.recorder.Lives()))
}

// victim is an agent that is killed, and what is known of its syncs.
type victim struct {
	*suite
	control, target string
	given           agentprocess.Options
	agent           *agentprocess.Agent
	repository      *gittest.Repository
	recorder        *agentprocess.Recorder
	random          *rand.Rand
	// usual is how long an undisturbed sync takes, and events how many
	// events there are in the cluster meanwhile.
	usual   time.Duration
	events  int
	slowest time.Duration
}

// push pushes the revision of a round.
func (v *victim) push(t *testing.T, round int) string {
	t.Helper()
	files := revision(round)
	for path := range revision(round - 1) {
		if _, stays := files[path]; !stays {
			files[path] = gittest.Gone
		}
	}
	return v.repository.Commit(t, files, fmt.Sprint("round ", round))
}

// measure is a round without a kill.
func (v *victim) measure(t *testing.T, round int) {
	t.Helper()
	before, _ := v.recorder.Events()
	commit := v.push(t, round)
	began := time.Now()
	v.synced(t, v.control, commit)
	v.usual = time.Since(began)
	after, _ := v.recorder.Events()
	v.events = after - before
	check(t, v.recorder, round)
	t.Logf("without a kill a sync takes %s and makes %d events", v.usual.Round(time.Millisecond), v.events)
}

// round is one with a kill.
func (v *victim) round(t *testing.T, round int) {
	t.Helper()
	before, _ := v.recorder.Events()
	commit := v.push(t, round)
	began := time.Now()
	point := v.awaitPoint(round, before)
	passed := pastPreSync(v.recorder.Lives(), round)
	v.agent.Kill()
	killed := time.Now()
	v.agent = agentprocess.Start(t, v.given)
	v.synced(t, v.control, commit)
	check(t, v.recorder, round)
	if runs, _ := hooksOf(v.recorder.Lives(), round); passed && runs["before"] != 1 {
		t.Errorf("round %d: the PreSync hook was over when the agent was killed, and ran %d times", round, runs["before"])
	}
	took := time.Since(killed)
	v.slowest = max(v.slowest, took)
	t.Logf("round %d: killed %s after the push, %s; as Git says %s later",
		round, killed.Sub(began).Round(time.Millisecond), point, took.Round(time.Millisecond))
}

// awaitPoint waits for a random point of a sync. Every other time it is a time,
// which may be in the middle of a request; else it is an event in the cluster,
// which is right after a write.
func (v *victim) awaitPoint(round, before int) string {
	if round%2 == 0 {
		<-time.After(time.Duration(v.random.Int64N(int64(v.usual))))
		return "at a random time"
	}
	want, late := 1+v.random.IntN(v.events), time.After(2*v.usual)
	for {
		now, more := v.recorder.Events()
		if now-before >= want {
			return fmt.Sprintf("at event %d", want)
		}
		select {
		case <-more:
		case <-late:
			return fmt.Sprintf("without event %d", want)
		}
	}
}
