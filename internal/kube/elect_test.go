package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// candidate is a replica that competes, on a connection of its own that can be
// cut: to the API server that is what kill -9 looks like.
type candidate struct {
	gate   kubetest.Gate
	led    chan struct{}
	failed chan error
	stop   context.CancelFunc
	ended  chan error
}

// leaders counts who leads at the same time.
type leaders struct{ now, most atomic.Int32 }

func (l *leaders) enter() {
	now := l.now.Add(1)
	for most := l.most.Load(); now > most && !l.most.CompareAndSwap(most, now); most = l.most.Load() {
	}
}

func compete(t *testing.T, cluster *kubetest.Cluster, election kube.Election, all *leaders) *candidate {
	t.Helper()
	c := &candidate{led: make(chan struct{}, 16), failed: make(chan error, 64), ended: make(chan error, 1)}
	c.run(t, cluster, election, all)
	return c
}

// run lets the candidate compete until the test ends.
func (c *candidate) run(t *testing.T, cluster *kubetest.Cluster, election kube.Election, all *leaders) {
	t.Helper()
	connection := cluster.Connect(t, c.gate.Option)
	// Long enough for a busy machine: a leader that is only slow stays leader.
	election.Duration, election.Renew, election.Retry = 6*time.Second, 5*time.Second, 200*time.Millisecond
	election.Failed = func(err error) { c.failed <- err }
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		c.ended <- connection.Elect(ctx, election, func(ctx context.Context) {
			all.enter()
			defer all.now.Add(-1)
			c.led <- struct{}{}
			<-ctx.Done()
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	})
}

func (c *candidate) waitToLead(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case <-c.led:
	case <-time.After(within):
		t.Fatalf("does not lead within %s", within)
	}
}

func leaseOf(t *testing.T, cluster *kubetest.Cluster, namespace string, holds func(holder string) bool) {
	t.Helper()
	kubetest.WaitFor(t, cluster.Client.CoordinationV1().Leases(namespace), kube.Named("edge"), 20*time.Second,
		func(leases []*coordinationv1.Lease) error {
			if len(leases) == 0 || leases[0].Spec.HolderIdentity == nil {
				return errors.New("there is no Lease")
			}
			if holder := *leases[0].Spec.HolderIdentity; !holds(holder) {
				return fmt.Errorf("it is held by %q", holder)
			}
			return nil
		})
}

// A leader that ends gives the Lease up, one that is killed loses it after its
// time, and one that comes back competes again. There is never more than one.
func TestElectTakeover(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	var all leaders
	election := func(identity string) kube.Election {
		return kube.Election{Namespace: namespace, Name: "edge", Identity: identity}
	}
	first := compete(t, cluster, election("first"), &all)
	first.waitToLead(t, 40*time.Second)
	second := compete(t, cluster, election("second"), &all)

	first.gate.Handle(func(*http.Request, kubetest.Send) (*http.Response, error) {
		return nil, errors.New("the connection is cut")
	})
	second.waitToLead(t, 40*time.Second)
	if err := <-first.failed; !strings.Contains(err.Error(), "the connection is cut") || !strings.Contains(err.Error(), "Lease "+namespace+"/edge") {
		t.Errorf("got failure %v, want what failed and of which Lease", err)
	}
	first.gate.Handle(nil)
	second.stop()
	// Released, so it takes no longer than the next look at the Lease.
	first.waitToLead(t, 40*time.Second)
	first.stop()
	leaseOf(t, cluster, namespace, func(holder string) bool { return holder == "" })
	if most := all.most.Load(); most != 1 {
		t.Errorf("%d replicas led at the same time", most)
	}
}

// TestElectInterval: a leader renews at the interval and not at each attempt, and
// the end of its term is written at once.
func TestElectInterval(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	const interval = time.Second
	var gate kubetest.Gate
	renewed := make(chan time.Time, 64)
	gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if request.Method == http.MethodPut {
			renewed <- time.Now()
		}
		return send(request)
	})
	connection := cluster.Connect(t, gate.Option)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- connection.Elect(ctx, kube.Election{
			Namespace: namespace, Name: "edge", Identity: "any",
			Duration: 12 * time.Second, Renew: 10 * time.Second, Retry: 50 * time.Millisecond, Interval: interval,
		}, func(ctx context.Context) { <-ctx.Done() })
	}()
	last := <-renewed
	for range 3 {
		next := <-renewed
		// A little is lost between the elector's reading of the clock and here.
		if gap := next.Sub(last); gap < interval/2 {
			t.Errorf("renewed after %s, want %s", gap, interval)
		}
		last = next
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	leaseOf(t, cluster, namespace, func(holder string) bool { return holder == "" })
}

// TestElectStalled: a request without a response is given up, and the next one
// wins the Lease.
func TestElectStalled(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	c := &candidate{led: make(chan struct{}, 1), failed: make(chan error, 1), ended: make(chan error, 1)}
	var once sync.Once
	c.gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		once.Do(func() { <-request.Context().Done() })
		if err := request.Context().Err(); err != nil {
			return nil, err
		}
		return send(request)
	})
	c.run(t, cluster, kube.Election{Namespace: namespace, Name: "edge", Identity: "any"}, &leaders{})
	c.waitToLead(t, 40*time.Second)
	if err := <-c.failed; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got failure %v, want the timeout of the request", err)
	}
}

// Without the right to the Lease no replica leads, and one message reports it, not one
// for each try. When the right comes, so does the Lease.
func TestElectForbidden(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	limited := *cluster.Config
	limited.Impersonate.UserName = "system:serviceaccount:" + namespace + ":default"
	connection := &kube.Cluster{Config: &limited, Client: clientFor(t, &limited)}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failed, led, ended := make(chan error, 64), make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- connection.Elect(ctx, kube.Election{
			Namespace: namespace, Name: "edge", Identity: "any",
			Duration: 6 * time.Second, Renew: 5 * time.Second, Retry: 50 * time.Millisecond,
			Failed: func(err error) { failed <- err },
		}, func(ctx context.Context) {
			led <- struct{}{}
			<-ctx.Done()
		})
	}()
	if err := <-failed; !strings.Contains(err.Error(), "get Lease") || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("got failure %v, want that reading the Lease is forbidden", err)
	}
	cluster.Apply(t, namespace, leaseRole("get"))
	if err := <-failed; !strings.Contains(err.Error(), "create Lease") || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("got failure %v, want that making the Lease is forbidden", err)
	}
	cluster.Apply(t, namespace, leaseRole("get", "create", "update"))
	select {
	case <-led:
	case <-time.After(40 * time.Second):
		t.Fatal("does not lead with all the rights")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(failed) != 0 {
		t.Errorf("a failure was reported again: %v", <-failed)
	}
	leaseOf(t, cluster, namespace, func(holder string) bool { return holder == "" })
}

func leaseRole(verbs ...string) string {
	return `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lease}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [` + strings.Join(verbs, ", ") + `]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lease}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lease}
subjects: [{kind: ServiceAccount, name: default}]
`
}

func TestElectRefusesHalfAnElection(t *testing.T) {
	cluster := kubetest.Shared(t)
	for _, election := range []kube.Election{
		{Name: "edge", Identity: "any"},
		{Namespace: "default", Identity: "any"},
		{Namespace: "default", Name: "edge"},
		{Namespace: "default", Name: "edge", Identity: "any", Duration: time.Second, Renew: time.Minute},
		{Namespace: "default", Name: "edge", Identity: "any", Duration: 15 * time.Second, Renew: 6 * time.Second, Retry: 2 * time.Second, Interval: 7 * time.Second},
	} {
		if err := cluster.Elect(t.Context(), election, func(context.Context) { t.Error("it leads") }); err == nil {
			t.Errorf("%+v is taken", election)
		}
	}
	if leases, err := cluster.Client.CoordinationV1().Leases("default").List(t.Context(), metav1.ListOptions{}); err != nil || len(leases.Items) != 0 {
		t.Errorf("got %v, %v, want no Lease", leases, err)
	}
}

func TestFailureKind(t *testing.T) {
	inner := errors.New("connection refused")
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"none", nil, ""},
		{"plain", inner, "connection refused"},
		{"wrapped", fmt.Errorf("get https://127.0.0.1:4242/x: %w", inner), "connection refused"},
	} {
		if got := kube.FailureKind(test.err); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
