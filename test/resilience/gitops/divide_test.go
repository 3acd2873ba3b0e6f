package gitops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// divideScale is how long and how hard the agents that divide Applications are disturbed.
type divideScale struct {
	applications int
	// In the first rounds an agent is killed, and the next one comes after a time; in the
	// others one is killed, paused or ended, and all is in order before the next one.
	kills, rounds int
	every         time.Duration
	// timeout is after how long an agent that is gone loses its share.
	timeout time.Duration
}

// scaleOfDivide is short for make test; with RESILIENCE=long an agent of three is killed
// every ten seconds for ten minutes.
func scaleOfDivide(t *testing.T) divideScale {
	s := divideScale{applications: 12, rounds: 3, timeout: 4 * time.Second}
	if os.Getenv("RESILIENCE") == "long" {
		s = divideScale{applications: 60, kills: 60, rounds: 6, every: 10 * time.Second, timeout: 15 * time.Second}
	}
	s.applications = programs.Setting(t, "DIVIDE_APPLICATIONS", s.applications)
	s.kills = programs.Setting(t, "DIVIDE_KILLS", s.kills)
	s.rounds = programs.Setting(t, "DIVIDE_ROUNDS", s.rounds)
	return s
}

// fleet is three agents that divide Applications.
type fleet struct {
	*suite
	divideScale
	control, target string
	second          *secondCluster
	repository      *gittest.Repository
	record          *writeRecord
	random          *rand.Rand
	agents          []*agentprocess.Agent
	started         int
}

// testDivide disturbs three agents that divide Applications: one is killed, paused for
// longer than its Lease is valid, or ended, while commits change all Applications, of which
// every other one is for a second cluster. No two write for one Application at a time, and in
// the end all is as in Git.
func (s *suite) testDivide(t *testing.T) {
	seed := programs.Setting(t, "RESILIENCE_SEED", time.Now().UnixNano())
	t.Logf("RESILIENCE_SEED=%d repeats the random choices", seed)
	f := &fleet{
		suite: s, divideScale: scaleOfDivide(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t),
		record: &writeRecord{}, random: rand.New(rand.NewPCG(uint64(seed), 1)),
	}
	f.second = newSecondCluster(t, f.target)
	f.cluster.Apply(t, f.control, f.second.secret())
	f.repository = gittest.Serve(t).Repository(t, "apps", f.files(0))
	for range 3 {
		f.agents = append(f.agents, f.start(t))
	}
	for i := range f.applications {
		f.apply(t, i)
	}
	f.inOrder(t)
	for round := 1; round <= f.kills+f.rounds; round++ {
		f.round(t, round)
		for _, problem := range f.record.check() {
			t.Errorf("round %d: %s", round, problem)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	f.repository.Commit(t, f.files(f.kills+f.rounds+1), "the end")
	f.inOrder(t)
	for _, problem := range f.record.check() {
		t.Error(problem)
	}
	f.checkMoves(t)
	f.checkClusters(t)
}

// checkMoves fails unless Applications of each cluster moved from one agent to another.
func (f *fleet) checkMoves(t *testing.T) {
	t.Helper()
	writes, moved := f.record.count()
	moves := map[string]int{}
	for i := range f.applications {
		moves[f.destination(i)] += moved[appName(i)]
	}
	for _, destination := range []string{ownCluster, f.second.destination()} {
		if moves[destination] == 0 {
			t.Errorf("no Application for %s moved from one agent to another", destination)
		}
	}
	t.Logf("%d rounds: %d writes for %d Applications, which moved by cluster %v times; no two agents wrote for one at a time", f.kills+f.rounds, writes, f.applications, moves)
}

// checkClusters fails unless each cluster has the objects of its Applications, and no others.
func (f *fleet) checkClusters(t *testing.T) {
	t.Helper()
	for destination, cluster := range map[string]*kubetest.Cluster{ownCluster: f.cluster, f.second.destination(): f.second.cluster} {
		var want, got []string
		for i := range f.applications {
			if f.destination(i) == destination {
				want = append(want, appName(i)+"-first", appName(i)+"-second")
			}
		}
		list := must.Get(cluster.Client.CoreV1().ConfigMaps(f.target).List(t.Context(), metav1.ListOptions{}))(t)
		for _, one := range list.Items {
			if one.Name != "kube-root-ca.crt" { // of every namespace
				got = append(got, one.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the cluster %s has the ConfigMaps %v, want %v", destination, got, want)
		}
	}
}

// ownCluster is the destination of Applications for the cluster of the agents.
const ownCluster = "server: https://kubernetes.default.svc"

// destination is the cluster of an Application: they take turns.
func (f *fleet) destination(i int) string {
	if i%2 == 1 {
		return f.second.destination()
	}
	return ownCluster
}

// start runs one more agent behind a proxy of its own, which records what it writes.
func (f *fleet) start(t *testing.T) *agentprocess.Agent {
	t.Helper()
	f.started++
	name := fmt.Sprintf("agent-%d", f.started)
	address := f.record.proxy(t, f.cluster.Config, name)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
`, address), 0o600))
	return agentprocess.Start(t, agentprocess.Options{
		Binary: f.binary, Kubeconfig: config, Namespace: f.control,
		Environment: f.second.environment(t, f.record, name),
		Arguments:   []string{"--applications.divide=true", "--applications.divideTimeout=" + f.timeout.String()},
	})
}

// appName is the name of an Application, which the objects of it begin with.
func appName(i int) string { return fmt.Sprintf("app-%03d", i) }

// files are two waves of ConfigMaps for each Application, with the value of a round.
func (f *fleet) files(round int) map[string]string {
	files := map[string]string{}
	for i := range f.applications {
		name := appName(i)
		files[name+"/first.yaml"] = configMap(name+"-first", round, 0)
		files[name+"/second.yaml"] = configMap(name+"-second", round, 1)
	}
	return files
}

// apply makes an Application that syncs by itself.
func (f *fleet) apply(t *testing.T, i int) {
	t.Helper()
	f.cluster.Apply(t, f.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: default
  source: {repoURL: %q, path: %s, targetRevision: main}
  destination: {%s, namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, appName(i), f.repository.URL(), appName(i), f.destination(i), f.target))
}

// inOrder waits until all Applications are as in Git.
func (f *fleet) inOrder(t *testing.T) {
	t.Helper()
	head := f.repository.Head(t)
	holds := agentprocess.InOrder(head)
	applications := agentprocess.Applications(f.cluster.Cluster, f.control)
	programs.Until(t, "all Applications are as in Git", func() bool {
		list, err := applications.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != f.applications {
			return false
		}
		for i := range list.Items {
			app, _, err := v1alpha1.Decode(list.Items[i].Object)
			if err != nil || holds(app) != nil {
				return false
			}
		}
		return true
	})
}

// round pushes a commit and disturbs one agent while it is synced.
func (f *fleet) round(t *testing.T, round int) {
	t.Helper()
	began := time.Now()
	f.repository.Commit(t, f.files(round), fmt.Sprint("round ", round))
	// The commit is found after up to an interval; the disturbance comes during the syncs
	// most of the time.
	<-time.After(time.Duration(f.random.Int64N(int64(agentprocess.Interval) + int64(500*time.Millisecond))))
	at := f.random.IntN(len(f.agents))
	agent, what := f.agents[at], ""
	switch {
	case round <= f.kills || round%3 == 1:
		what = "killed"
		agent.Kill()
		f.agents[at] = f.start(t)
	case round%3 == 2:
		what = "paused"
		must.Do(t, agent.Signal(syscall.SIGSTOP))
		// Longer than its Lease, so that others have its share when it wakes up.
		<-time.After(f.timeout + f.timeout/2)
		must.Do(t, agent.Signal(syscall.SIGCONT))
	default:
		what = "ended"
		agent.Stop(t)
		f.agents[at] = f.start(t)
	}
	if round <= f.kills {
		<-time.After(time.Until(began.Add(f.every)))
	} else {
		f.inOrder(t)
	}
	t.Logf("round %d: an agent was %s, %s", round, what, time.Since(began).Round(time.Millisecond))
}
