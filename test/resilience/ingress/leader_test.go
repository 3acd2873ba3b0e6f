package ingress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const (
	// handover is how soon it does when the leader was stopped.
	handover   = 10 * time.Second
	published  = "192.0.2.10"
	leaderName = "slipway_ingress_leader"
	writesName = "slipway_ingress_status_writes_total"
)

// takeover is how soon another replica writes when the leader was killed. A short
// test runs while other packages are tested.
func takeover() time.Duration {
	if long() {
		return 20 * time.Second
	}
	return 25 * time.Second
}

// leaders is the scene: two replicas that compete.
type leaders struct {
	cluster   *kubetest.Cluster
	api       *kube.Cluster
	namespace string
	replicas  []*replica
	// written counts the writes of replicas that are gone.
	written float64
	made    int
}

// testLeader: one replica writes status. When it is killed the other one does.
func (s *suite) testLeader(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Shared(t)
	c := &leaders{cluster: cluster, api: connect(t, cluster), namespace: cluster.Namespace(t)}
	for i := range 2 {
		at := seat{
			Binary: s.binary, At: hostOf(2, byte(i+1)), Kubeconfig: cluster.Kubeconfig, Namespace: c.namespace,
			Arguments: []string{
				"--providers.kubernetesIngress.ingressEndpoint.ip=" + published,
				"--providers.kubernetesIngress.namespaces=" + c.namespace,
				"--entryPoints.web.transport.lifeCycle.requestAcceptGraceTimeout=0s",
				"--entryPoints.websecure.transport.lifeCycle.requestAcceptGraceTimeout=0s",
			},
		}
		c.replicas = append(c.replicas, at.Start(t))
	}
	leases := c.watchLease(t)
	leader := c.awaitLeader(t, patience)
	c.publishes(t, patience)

	observed := c.observe()
	c.killLeader(t, leader)
	c.stopLeader(t)
	observed(t)
	if long() {
		c.freezeLeader(t)
	}
	c.checkWrites(t)
	leases(t)
}

// killLeader ends the leader with SIGKILL. It is started again afterwards.
func (c *leaders) killLeader(t *testing.T, leader int) {
	t.Helper()
	c.note(t, leader)
	began := time.Now()
	c.replicas[leader].Kill()
	c.publishes(t, takeover()-time.Since(began))
	t.Logf("the leader was killed, and a status was written %v later", time.Since(began).Round(10*time.Millisecond))
	c.replicas[leader] = c.replicas[leader].Start(t)
	c.replicas[leader].AwaitReady(t)
}

// stopLeader ends the leader in good order.
func (c *leaders) stopLeader(t *testing.T) {
	t.Helper()
	leader := c.awaitLeader(t, patience)
	c.note(t, leader)
	began := time.Now()
	c.replicas[leader].Stop(t)
	c.publishes(t, handover-time.Since(began))
	t.Logf("the leader was stopped, and a status was written %v later", time.Since(began).Round(10*time.Millisecond))
	c.replicas[leader] = c.replicas[leader].Start(t)
	c.replicas[leader].AwaitReady(t)
}

// freezeLeader stops the leader for longer than its lease. When it goes on it
// believes for a moment that it leads, and must not write all the same.
func (c *leaders) freezeLeader(t *testing.T) {
	t.Helper()
	leader := c.awaitLeader(t, patience)
	old := c.replicas[leader]
	c.awaitWrites(t)
	before := c.writes(t, old)
	signal(t, old, syscall.SIGSTOP)
	c.publishes(t, takeover())
	c.publishes(t, takeover())
	signal(t, old, syscall.SIGCONT)
	eventually(t, patience, func() error {
		if leads, err := old.Metric(t.Context(), leaderName, ""); err != nil || leads != 0 {
			return fmt.Errorf("the old leader still leads (%v): %v", leads, err)
		}
		return nil
	})
	c.publishes(t, patience)
	if after := c.writes(t, old); after != before {
		t.Errorf("the old leader wrote %v times after it lost the Lease", after-before)
	}
}

// publishes makes an Ingress and waits for its status.
func (c *leaders) publishes(t *testing.T, within time.Duration) {
	t.Helper()
	c.made++
	name := fmt.Sprintf("shop-%d", c.made)
	c.cluster.Apply(t, c.namespace, fmt.Sprintf(leaderManifest, name))
	kubetest.WaitFor(t, c.api.Client.NetworkingV1().Ingresses(c.namespace), kube.Named(name), within,
		func(found []*networkingv1.Ingress) error {
			for _, ingress := range found {
				if balancer := ingress.Status.LoadBalancer.Ingress; len(balancer) == 1 && balancer[0].IP == published {
					return nil
				}
			}
			return errors.New("no status")
		})
}

// leaderManifest names no Service: one that waits for endpoints gets its status
// later.
const leaderManifest = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  rules: [{host: %[1]s.test}]
`

// awaitLeader waits until a replica leads, and gives its index.
func (c *leaders) awaitLeader(t *testing.T, within time.Duration) (leader int) {
	t.Helper()
	eventually(t, within, func() error {
		for i, r := range c.replicas {
			if leads, err := r.Metric(t.Context(), leaderName, ""); err == nil && leads == 1 {
				leader = i
				return nil
			}
		}
		return errors.New("no replica leads")
	})
	return leader
}

func (c *leaders) writes(t *testing.T, r *replica) float64 {
	t.Helper()
	return must.Get(r.Metric(t.Context(), writesName, `result="written"`))(t)
}

// note waits until every status is counted as written once, by the leader of that time,
// and remembers what a replica counted that is about to end.
func (c *leaders) note(t *testing.T, leader int) {
	t.Helper()
	c.awaitWrites(t)
	c.written += c.writes(t, c.replicas[leader])
}

func (c *leaders) awaitWrites(t *testing.T) {
	t.Helper()
	eventually(t, patience, func() error {
		sum := c.written
		for _, r := range c.replicas {
			count, err := r.Metric(t.Context(), writesName, `result="written"`)
			if err != nil {
				return err // it is not there yet
			}
			sum += count
		}
		if sum != float64(c.made) {
			return fmt.Errorf("%d Ingresses were made, and %v statuses written", c.made, sum)
		}
		return nil
	})
}

// checkWrites: every status was written once, and by one writer.
func (c *leaders) checkWrites(t *testing.T) {
	t.Helper()
	c.awaitWrites(t)
	all := must.Get(c.api.Client.NetworkingV1().Ingresses(c.namespace).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range all.Items {
		writers := 0
		for _, entry := range all.Items[i].ManagedFields {
			if entry.Subresource == "status" {
				writers++
			}
		}
		if writers != 1 {
			t.Errorf("%s: %d writers of the status", all.Items[i].Name, writers)
		}
	}
}

// observe looks all the time whether both replicas report that they lead. One that
// reports it before and after the other one does has led at the same time.
func (c *leaders) observe() (report func(*testing.T)) {
	ctx, cancel := context.WithCancel(context.Background())
	leads := func(i int) bool {
		address := hostOf(2, byte(i+1)) // whichever process is there
		value, err := seat{At: address}.Metric(ctx, leaderName, "")
		return err == nil && value == 1
	}
	var watching sync.WaitGroup
	looks, both := 0, 0
	watching.Go(func() {
		for pause(ctx, lookAgain) {
			looks++
			if leads(0) && leads(1) && leads(0) {
				both++
			}
		}
	})
	return func(t *testing.T) {
		t.Helper()
		cancel()
		watching.Wait()
		t.Logf("%d looks at both replicas", looks)
		if both > 0 || looks == 0 {
			t.Errorf("both replicas led at %d of %d looks", both, looks)
		}
	}
}

// watchLease follows the Lease. What it returns checks that no replica took it from a
// holder whose time was not over.
func (c *leaders) watchLease(t *testing.T) (check func(*testing.T)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := c.api.Client.CoordinationV1().Leases(c.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var seen []*coordinationv1.Lease
	var watching sync.WaitGroup
	watching.Go(func() {
		for event := range events.ResultChan() {
			if lease, ok := event.Object.(*coordinationv1.Lease); ok {
				seen = append(seen, lease)
			}
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		events.Stop()
		watching.Wait()
	})
	t.Cleanup(stop)
	return func(t *testing.T) {
		t.Helper()
		stop()
		checkLeases(t, seen)
	}
}

func checkLeases(t *testing.T, seen []*coordinationv1.Lease) {
	t.Helper()
	holders := 0
	holder := func(l *coordinationv1.Lease) string {
		if l.Spec.HolderIdentity == nil {
			return ""
		}
		return *l.Spec.HolderIdentity
	}
	for i := 1; i < len(seen); i++ {
		before, after := seen[i-1], seen[i]
		if holder(before) == holder(after) || holder(after) == "" {
			continue
		}
		holders++
		if holder(before) == "" {
			continue // it was given up
		}
		over := before.Spec.RenewTime.Add(time.Duration(*before.Spec.LeaseDurationSeconds) * time.Second)
		if after.Spec.AcquireTime.Time.Before(over) {
			t.Errorf("%s took the Lease at %v, and that of %s lasted until %v", holder(after), after.Spec.AcquireTime, holder(before), over)
		}
	}
	t.Logf("%d versions of the Lease, %d changes of its holder", len(seen), holders)
	if holders < 2 {
		t.Errorf("the holder changed %d times", holders)
	}
}
