package ingress

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// program is how much there is of everything.
type program struct {
	lasts            time.Duration // at least
	edits, rotations int           // at least
	stopped          time.Duration // the API server, by SIGSTOP
	calm             time.Duration // between two disturbances
}

func newProgram() program {
	if long() {
		return program{lasts: 3 * time.Minute, edits: 200, rotations: 100, stopped: 15 * time.Second, calm: 5 * time.Second}
	}
	return program{lasts: 20 * time.Second, edits: 20, rotations: 10, stopped: 3 * time.Second, calm: time.Second}
}

// continuity is the scene of the test.
type continuity struct {
	*world
	program   program
	authority *pkitest.Authority
	pairs     []pkitest.Pair
	balancer  *balancer
	replicas  []*replica
	clients   []*client

	// edited is the Service that a rule leads to, and shown the certificate.
	edited, shown *fact
	// calm is held by who wants that no rule and no certificate is about to
	// change.
	calm  sync.RWMutex
	edits changes
	turns changes
}

// testContinuity: whatever happens, clients get the right responses.
func (s *suite) testContinuity(t *testing.T) {
	c := newContinuity(t)
	for i := range 2 {
		at := seat{
			Binary: s.binary, At: hostOf(1, byte(i+1)), Kubeconfig: c.cluster.Kubeconfig, Namespace: c.namespace,
			Arguments: []string{
				"--lastGood.dir=" + filepath.Join(t.TempDir(), "last-good"),
				"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=2s",
				"--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=2s",
			},
		}
		c.replicas = append(c.replicas, c.admit(t, at.Start(t)))
	}
	w := &traffic{}
	stop := w.run(requesters(c.clients, func(port int) dialer { return seat{At: hostOf(1, 100)}.Dialer(port) }, c.authority.Pool))
	began := time.Now()
	end := disturb(c.errors, c.churn, c.editRules, c.rotate)
	c.conduct(t, began)
	stop()
	end()
	t.Logf("in %v: %s; %s", time.Since(began).Round(time.Second), c.edits.String("edits"), c.turns.String("certificates"))
	w.report(t)
	c.errors.report(t, "things were wrong")
}

func newContinuity(t *testing.T) *continuity {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	c := &continuity{
		world: &world{
			cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t),
			addresses: newAddresses(cluster.PodNetwork), errors: &collector{},
		},
		program: newProgram(), authority: pkitest.NewAuthority(t), balancer: newBalancer(t, hostOf(1, 100)),
		edited: newFact("blue"), shown: newFact("v0"),
	}
	for i := range c.program.rotations * 3 {
		c.pairs = append(c.pairs, c.authority.Issue(t, fmt.Sprintf("v%d", i), "secure.test"))
	}
	for _, name := range []string{"one", "two", "three", "blue", "green", "vault", "guarded"} {
		c.newService(t, name, 6)
	}
	c.cluster.Apply(t, c.namespace, continuityManifest+filler()+secretManifest("secure", c.pairs[0]))
	c.clients = c.newClients()
	return c
}

// newClients ask for everything that there is.
func (c *continuity) newClients() []*client {
	steady := []string{"one", "two", "three"}
	facts := map[string]*fact{}
	for _, s := range c.services {
		facts[s.name] = newFact(s.name)
	}
	of := func(name string) func(int) (string, *fact) {
		return func(int) (string, *fact) { return name + ".test", facts[name] }
	}
	all := func(number int) (string, *fact) {
		name := steady[number%len(steady)]
		return name + ".test", facts[name]
	}
	secure := func(int) (string, *fact) { return "secure.test", facts["vault"] }
	return []*client{
		{name: "kept", method: http.MethodGet, scheme: "http", host: all},
		{name: "fresh", method: http.MethodPost, scheme: "http", host: all, fresh: true},
		{name: "slow", method: http.MethodGet, scheme: "http", host: all, hold: 700 * time.Millisecond},
		{name: "edited", method: http.MethodGet, scheme: "http", host: func(int) (string, *fact) { return "edited.test", c.edited }},
		{name: "guarded", method: http.MethodGet, scheme: "http", host: of("guarded"), user: "guard"},
		{name: "secure h2", method: http.MethodGet, scheme: "https", host: secure, h2: true},
		{name: "handshake", method: http.MethodGet, scheme: "https", host: secure, certificate: c.shown, fresh: true},
	}
}

// admit waits until a replica is ready and lets it have traffic. Its very first
// responses must be right: it has reported ready.
func (c *continuity) admit(t *testing.T, r *replica) *replica {
	t.Helper()
	r.AwaitReady(t)
	for _, asking := range c.clients {
		transport := asking.transport(func(port int) dialer { return r.Dialer(port) }, c.authority.Pool)
		if err := asking.ask(t.Context(), transport, 0); err != nil {
			t.Errorf("%s: a replica that is ready: %v", asking.name, err)
		}
		transport.CloseIdleConnections()
	}
	c.balancer.admit(r)
	return r
}

// conduct stops and kills and restarts, as long as there is time.
func (c *continuity) conduct(t *testing.T, began time.Time) {
	c.wait(t)
	c.restart(t, 0)
	c.freezeAPI(t, nil)
	c.killAPI(t, 1)
	c.wait(t)
	if long() {
		c.freezeAPI(t, func() { c.restartMeanwhile(t, 0) })
		c.killAPI(t, 0)
	}
	for turn := 0; time.Since(began) < c.program.lasts || c.edits.count() < c.program.edits || c.turns.count() < c.program.rotations; turn++ {
		if time.Since(began) > 5*c.program.lasts+patience {
			t.Fatalf("too little happens: %d edits, %d certificates", c.edits.count(), c.turns.count())
		}
		c.wait(t)
		if turn%3 == 2 {
			c.restart(t, turn%2)
		}
	}
}

// wait is a time without a disturbance.
func (c *continuity) wait(t *testing.T) { pause(t.Context(), c.program.calm) }

// restart replaces a replica while the API server is there.
func (c *continuity) restart(t *testing.T, i int) {
	t.Helper()
	c.calm.Lock()
	defer c.calm.Unlock()
	c.replicas[i].Stop(t)
	c.replicas[i] = c.admit(t, c.replicas[i].Start(t))
}

// restartMeanwhile replaces a replica while the API server is away: it serves
// what it served last.
func (c *continuity) restartMeanwhile(t *testing.T, i int) {
	t.Helper()
	c.replicas[i].Stop(t)
	r := c.replicas[i].Start(t)
	began := time.Now()
	c.replicas[i] = c.admit(t, r)
	t.Logf("the routes served last were live %v after the start", time.Since(began).Round(time.Millisecond))
	if !r.Logged("the routes served last are live") {
		t.Error("a replica was ready, and nobody knows why")
	}
}

// freezeAPI stops the API server, which then keeps its connections and sends
// nothing.
func (c *continuity) freezeAPI(t *testing.T, meanwhile func()) {
	t.Helper()
	if meanwhile != nil {
		// What is served next is what was served last, so that must be the newest.
		c.calm.Lock()
	}
	c.outage.set(true)
	c.send(t, syscall.SIGSTOP)
	goOn := sync.OnceFunc(func() { c.send(t, syscall.SIGCONT) })
	defer goOn()
	if meanwhile != nil {
		c.calm.Unlock()
		meanwhile()
	}
	pause(t.Context(), c.program.stopped)
	goOn()
	c.outage.set(false)
	c.wait(t)
}

func (c *continuity) send(t *testing.T, signal syscall.Signal) {
	t.Helper()
	process, err := os.FindProcess(c.cluster.PID())
	if err == nil {
		err = process.Signal(signal)
	}
	must.Do(t, err)
}

// killAPI ends the API server, restarts a replica without it, and brings it back.
func (c *continuity) killAPI(t *testing.T, i int) {
	t.Helper()
	c.calm.Lock()
	c.outage.set(true)
	c.cluster.Kill(t)
	c.calm.Unlock()
	c.restartMeanwhile(t, i)
	stop := c.hammer(c.replicas[i])
	c.cluster.Restart(t)
	c.outage.set(false)
	eventually(t, patience, func() error {
		if !c.replicas[i].Logged("the cluster has been read; its routes replace those that were served last") {
			return fmt.Errorf("the replica does not come back to the cluster: %v", c.replicas[i].Alive())
		}
		return nil
	})
	stop()
}

// hammer asks one replica without a pause for what depends on most objects, so
// that nothing of how it changes is missed.
func (c *continuity) hammer(r *replica) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for _, asking := range c.clients {
		if asking.user == "" && !asking.h2 {
			continue
		}
		transport := asking.transport(func(port int) dialer { return r.Dialer(port) }, c.authority.Pool)
		working.Go(func() {
			defer transport.CloseIdleConnections()
			for number := 0; ctx.Err() == nil; number++ {
				if err := asking.ask(context.Background(), transport, number); err != nil {
					c.errors.add("%s, when the cluster is back: %v", asking.name, err)
				}
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}
