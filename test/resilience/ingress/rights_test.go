package ingress

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// testRights: the roles in deploy/rbac are exactly what is used.
func (s *suite) testRights(t *testing.T) {
	t.Parallel()
	c := newRights(t, s)
	cluster := grants{granted: rightsIn(t, "deploy/rbac/clusterrole.yaml"), lease: rightsIn(t, "deploy/rbac/role-lease.yaml")}
	namespaced := grants{granted: rightsIn(t, "deploy/rbac/role-namespaced.yaml"), lease: cluster.lease, namespaced: true}
	t.Run("used", func(t *testing.T) {
		t.Run("namespaced", func(t *testing.T) { c.testUsed(t, namespaced) })
		t.Run("cluster", func(t *testing.T) { c.testUsed(t, cluster) })
	})
	t.Run("needed", func(t *testing.T) {
		all := []grants{cluster}
		if long() {
			all = append(all, namespaced)
		}
		for _, given := range all {
			for _, missing := range given.all() {
				t.Run(given.String()+" "+missing.String(), func(t *testing.T) {
					t.Parallel()
					c.testNeeded(t, given.without(missing), missing)
				})
			}
		}
	})
}

// grants are the rights of an edge: those for what is served, in the cluster or
// in one namespace, and those for its Lease.
type grants struct {
	granted, lease []right
	namespaced     bool
}

// String returns where the rights are valid.
func (g grants) String() string {
	if g.namespaced {
		return "namespaced"
	}
	return "cluster"
}

func (g grants) all() []right { return slices.Concat(g.granted, g.lease) }

// without is all rights but one.
func (g grants) without(missing right) grants {
	same := func(r right) bool { return r == missing }
	g.granted = slices.DeleteFunc(slices.Clone(g.granted), same)
	g.lease = slices.DeleteFunc(slices.Clone(g.lease), same)
	return g
}

// rightsIn are the rights of the first role in a file.
func rightsIn(t *testing.T, path string) []right {
	t.Helper()
	var role rbacv1.ClusterRole // a Role has the same rules
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(readFile(t, path)), 4096)
	if err := documents.Decode(&role); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	rights := rightsOfRules(t, path, role.Rules)
	if len(rights) == 0 {
		t.Fatalf("%s has no rights", path)
	}
	return rights
}

// rightsOfRules are the rights of a role in a file, one by one.
func rightsOfRules(t *testing.T, path string, rules []rbacv1.PolicyRule) []right {
	t.Helper()
	var rights []right
	for _, rule := range rules {
		if len(rule.ResourceNames) > 0 || len(rule.NonResourceURLs) > 0 {
			t.Fatalf("%s: this test does not know such a rule: %v", path, rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, right{group, resource, verb})
				}
			}
		}
	}
	return rights
}

// rules is a role with these rights, one by one.
func rules(rights []right) string {
	var text strings.Builder
	for _, r := range rights {
		fmt.Fprintf(&text, "- {apiGroups: [%q], resources: [%q], verbs: [%q]}\n", r.group, r.resource, r.verb)
	}
	if text.Len() == 0 {
		return "rules: []\n"
	}
	return "rules:\n" + text.String()
}

// testUsed: an edge with the shipped rights does everything, nothing is denied,
// and no right is left over.
func (c *rights) testUsed(t *testing.T, given grants) {
	var used []right
	edge := c.shipped(t, given)
	for i, old := range []bool{false, true} {
		t.Run(map[bool]string{false: "new", true: "old"}[old], func(t *testing.T) {
			e := c.newEdge(t, edge, given, old)
			e.replica.AwaitReady(t)
			c.checkServed(t, e)
			c.checkWritten(t, e, i == 1)
			// What an edge does last may come after what others left to be seen: an Event
			// of an earlier edge is there before this one counts on.
			if i == 1 {
				eventually(t, patience, func() error { return unused(given, used, e) })
			}
			now, denied, other := e.gateway.rights()
			used = append(used, now...)
			if len(denied) > 0 {
				t.Errorf("denied: %v", denied)
			}
			if len(other) > 0 {
				t.Errorf("this was asked for too: %v", other)
			}
			e.replica.Stop(t)
		})
	}
	for _, r := range used {
		if !slices.Contains(given.all(), r) {
			t.Errorf("%v is used and not granted", r)
		}
	}
}

// unused names the first right that neither the edges before nor this one used.
func unused(given grants, before []right, e *rightsEdge) error {
	now, _, _ := e.gateway.rights()
	for _, r := range given.all() {
		if !slices.Contains(before, r) && !slices.Contains(now, r) {
			return fmt.Errorf("%v is granted and never used", r)
		}
	}
	return nil
}

// testNeeded: without one right something does not work, and one can see what.
func (c *rights) testNeeded(t *testing.T, given grants, missing right) {
	// A list is what an older API server is asked for.
	e := c.newEdge(t, c.made(t, given), given, missing.verb == "list")
	eventually(t, patience, func() error {
		if !e.gateway.denies(missing) {
			return errors.Join(fmt.Errorf("%v was never asked for", missing), e.replica.Alive())
		}
		return nil
	})
	eventually(t, patience, func() error {
		return errors.Join(c.symptom(t, e, missing), e.replica.Alive())
	})
	_, denied, _ := e.gateway.rights()
	for _, r := range denied {
		if r != missing {
			t.Errorf("%v was denied too", r)
		}
	}
}
