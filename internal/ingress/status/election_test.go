package status

import (
	"context"
	"strings"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

// turns notes which replica writes, and whether one does at the same time as another
// one.
type turns struct {
	mu    sync.Mutex
	busy  map[string]int
	mixed bool
}

// watch puts the notes around the requests of a replica.
func (c *turns) watch(name string) func(*Writer) {
	return func(w *Writer) {
		apply := w.apply
		w.apply = func(ctx context.Context, task statusWrite) (*networkingv1.Ingress, error) {
			c.enter(name, 1)
			defer c.enter(name, -1)
			return apply(ctx, task)
		}
	}
}

func (c *turns) enter(name string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[name] += by
	for other, number := range c.busy {
		c.mixed = c.mixed || other != name && number > 0 && by > 0
	}
}

// Of two replicas one writes. When it is killed the other one goes on with what
// is left, and when the first one comes back it does not write.
func TestOneReplicaWrites(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "one", "ours")
	who := &turns{busy: map[string]int{}}
	first := start(t, cluster, namespace, Options{IP: "192.0.2.1", Identity: "first"}, who.watch("first"))
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
	second := start(t, cluster, namespace, Options{IP: "192.0.2.1", Identity: "second"}, who.watch("second"))
	makeIngress(t, cluster, namespace, "two", "ours")
	waitStatus(t, cluster, namespace, 2, "192.0.2.1")
	if !first.leading.Load() || second.leading.Load() || second.writes(resultWritten) != 0 {
		t.Error("the second replica writes")
	}

	// The status is there before the response to its write: that must have come, too.
	programs.Until(t, "the first wrote two", func() bool { return first.writes(resultWritten) == 2 })
	first.gate.Close()
	makeIngress(t, cluster, namespace, "three", "ours")
	waitStatus(t, cluster, namespace, 3, "192.0.2.1")
	programs.Until(t, "the first has noticed", func() bool { return !first.leading.Load() })
	if !second.leading.Load() || second.count("leader", "") != 1 || first.count("leader", "") != 0 {
		t.Error("the second replica does not say that it leads")
	}
	first.gate.Open()
	makeIngress(t, cluster, namespace, "four", "ours")
	waitStatus(t, cluster, namespace, 4, "192.0.2.1")
	programs.Until(t, "both wrote two", func() bool {
		return first.writes(resultWritten) == 2 && second.writes(resultWritten) == 2
	})
	if who.mixed {
		t.Error("both replicas wrote at the same time")
	}
}

const exactRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: edge}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
- {apiGroups: [networking.k8s.io], resources: [ingresses/status], verbs: [patch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edge}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: edge}
subjects: [{kind: ServiceAccount, name: default}]
`

// Without rights nothing is written and one line has the reason. With the rights that
// the package's doc lists, and no others, everything is.
func TestRights(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	makeIngress(t, cluster, namespace, "shop", "ours")
	r := startAs(t, cluster, seat{namespace, "system:serviceaccount:" + namespace + ":default"}, Options{IP: "192.0.2.1"})
	r.Refusals(snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: "shop"}, faults(refusal.Invalid, "spec.rules", "no"))
	programs.Until(t, "the log has the missing right", func() bool { return strings.Count(r.lines.String(), "leader election failed") == 1 })
	if r.leading.Load() || strings.Count(r.lines.String(), "forbidden") != 1 {
		t.Error("it leads without the right to")
	}
	waitStatus(t, cluster, namespace, 1, "")

	cluster.Apply(t, namespace, exactRights)
	waitStatus(t, cluster, namespace, 1, "192.0.2.1")
	waitEvents(t, cluster, namespace, "shop", "Warning RefusedInvalid spec.rules: no")
	setClass(t, cluster, namespace, "shop", "theirs")
	waitStatus(t, cluster, namespace, 1, "")
	if got := strings.Count(r.lines.String(), "leader election failed"); got != 1 {
		t.Errorf("%d lines about the Lease", got)
	}
}

// The Lease alone is not enough: what is forbidden later is logged once, and the
// rest goes on.
func TestRightsForEventsOnly(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, strings.Replace(exactRights, "ingresses/status", "ingresses", 1))
	makeIngress(t, cluster, namespace, "shop", "ours")
	makeIngress(t, cluster, namespace, "cart", "ours")
	r := startAs(t, cluster, seat{namespace, "system:serviceaccount:" + namespace + ":default"}, Options{IP: "192.0.2.1"})
	r.Refusals(snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: "shop"}, faults(refusal.Invalid, "spec.rules", "no"))
	waitEvents(t, cluster, namespace, "shop", "Warning RefusedInvalid spec.rules: no")
	programs.Until(t, "both are tried again", func() bool { return r.writes(resultFailed) >= 4 })
	if got := strings.Count(r.lines.String(), "write of a status failed"); got != 1 {
		t.Errorf("%d lines about the status", got)
	}
}

func TestNoLease(t *testing.T) {
	cluster := kubetest.Shared(t)
	w := New(cluster.Cluster, Options{IP: "192.0.2.1"})
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "namespace and the name of a Lease") {
		t.Errorf("got %v, want what is missing", err)
	}
	if one, two := w.options.Identity, New(cluster.Cluster, Options{}).options.Identity; one == two || one == "" {
		t.Errorf("two replicas are called %q", one)
	}
}
