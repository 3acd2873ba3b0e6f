package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/gatewayapi"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/must"
)

// rights are single rights: scope, group, resource, name and verb.
type rights map[string]bool

func (r rights) add(scope string, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{"any"}
		}
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						r[fmt.Sprintf("%s: %s %s/%s %s", scope, verb, group, resource, name)] = true
					}
				}
			}
			for _, url := range rule.NonResourceURLs {
				r[fmt.Sprintf("%s: %s url %s", scope, verb, url)] = true
			}
		}
	}
}

func (r rights) without(others rights) []string {
	var left []string
	for right := range r {
		if !others[right] {
			left = append(left, right)
		}
	}
	slices.Sort(left)
	return left
}

// shipped reads the roles of deploy: those of namespaces are at home.
func shipped(t *testing.T, files ...string) rights {
	t.Helper()
	made := rights{}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("../../../deploy", name))
		must.Do(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			role := rbacv1.ClusterRole{}
			must.Do(t, yaml.Unmarshal([]byte(document), &role))
			switch role.Kind {
			case "ClusterRole":
				made.add("cluster", role.Rules)
			case "Role":
				made.add("home", role.Rules)
			}
		}
	}
	return made
}

// given are the rights that the chart binds to a ServiceAccount.
func given(t *testing.T, made chart.Rendered, account string) rights {
	t.Helper()
	found := rights{}
	for _, object := range append(made.Objects, made.Hooks...) {
		if object.GetKind() != "RoleBinding" && object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		binding := rbacv1.ClusterRoleBinding{}
		convert(t, object.Object, &binding)
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != account || binding.Subjects[0].Namespace != "slipway" {
			continue
		}
		role := rbacv1.ClusterRole{}
		for _, other := range append(made.Objects, made.Hooks...) {
			if other.GetKind() == binding.RoleRef.Kind && other.GetName() == binding.RoleRef.Name && other.GetNamespace() == object.GetNamespace() {
				convert(t, other.Object, &role)
			}
		}
		if len(role.Rules) == 0 {
			t.Errorf("%s %s binds a role that is not there", object.GetKind(), object.GetName())
		}
		scope := map[string]string{"": "cluster", "slipway": "home"}[object.GetNamespace()]
		if scope == "" {
			scope = object.GetNamespace()
		}
		found.add(scope, role.Rules)
	}
	return found
}

func convert(t *testing.T, from map[string]any, into any) {
	t.Helper()
	text, err := yaml.Marshal(from)
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	must.Do(t, err)
}

func sameRights(t *testing.T, got, want rights) {
	t.Helper()
	if left := want.without(got); len(left) > 0 {
		t.Errorf("missing:\n%s", strings.Join(left, "\n"))
	}
	if left := got.without(want); len(left) > 0 {
		t.Errorf("too much:\n%s", strings.Join(left, "\n"))
	}
}

// TestAgentRights: the agent has the rights of deploy/agent, and those of a
// runtime that joins, and no more.
func TestAgentRights(t *testing.T) {
	want := shipped(t, "agent/rbac/clusterrole.yaml", "agent/rbac/role-control.yaml", "agent/rbac/role-home.yaml", "agent/rbac/deliver.yaml")
	want.add("home", []rbacv1.PolicyRule{
		// The credential of the runtime, Git tokens, and clusters.
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "update", "patch", "delete"}},
		// Hosts and authorities that come with a Git integration.
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"argocd-ssh-known-hosts-cm", "argocd-tls-certs-cm"}, Verbs: []string{"get", "update"}},
		// Components and their logs.
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
	})
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "tunnel R50")), "slipway-agent"), want)
	all := shipped(t, "agent/rbac/deliver.yaml")
	for right := range all {
		delete(want, right)
	}
	for right := range shipped(t, "agent/rbac/rollouts.yaml") {
		want[right] = true
	}
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "Argo Rollouts")), "slipway-agent"), want)
}

// TestDividedRights: an agent whose replicas divide the Applications has the Leases of the
// others in addition, and its old Pods end before new ones start.
func TestDividedRights(t *testing.T) {
	plain := render(t, runtimeChart, flagSet{name: "plain", set: joined()})
	divided := render(t, runtimeChart, flagSet{name: "divided", set: joined("agent.replicas=3", "agent.config.applications.divide=true")})
	more := given(t, divided, "slipway-agent").without(given(t, plain, "slipway-agent"))
	if want := []string{"home: delete coordination.k8s.io/leases any", "home: list coordination.k8s.io/leases any", "home: watch coordination.k8s.io/leases any"}; !slices.Equal(more, want) {
		t.Errorf("it has in addition %v, and not %v", more, want)
	}
	for strategy, made := range map[string]chart.Rendered{"": plain, "Recreate": divided} {
		if got, _, _ := unstructured.NestedString(find(t, made, "Deployment", "slipway-agent").Object, "spec", "strategy", "type"); got != strategy {
			t.Errorf("the strategy is %q, and not %q", got, strategy)
		}
	}
	if options := agentOptions(t, divided); !options.Applications.Divide {
		t.Error("the option does not reach the agent")
	}
}

// TestEdgeRights: the edge has the rights of deploy, with and without ACME and Gateway
// API.
func TestEdgeRights(t *testing.T) {
	want := shipped(t, "rbac/clusterrole.yaml", "rbac/traefik-role.yaml", "rbac/role-lease.yaml")
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "tunnel R50")), "slipway-edge"), want)

	want = shipped(t, "rbac/clusterrole.yaml", "rbac/traefik-role.yaml", "rbac/role-lease.yaml", "rbac/acme-role.yaml")
	for right := range want {
		if strings.Contains(right, "traefik.") {
			delete(want, right)
		}
	}
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "another edge")), "slipway-edge"), want)

	want = shipped(t, "rbac/clusterrole.yaml", "rbac/traefik-role.yaml", "rbac/role-lease.yaml", "rbac/gateway-role.yaml")
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "Gateway API")), "slipway-edge"), want)
	want = shipped(t, "rbac/clusterrole.yaml", "rbac/traefik-role.yaml", "rbac/role-lease.yaml", "rbac/gateway-role.yaml", "rbac/gateway-deployments-role.yaml")
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "Gateway API by Deployments")), "slipway-edge"), want)
}

// TestNamespacedRights: R120: with singleNamespace nothing outside of namespaces
// is made, but for the right to read which cluster this is.
func TestNamespacedRights(t *testing.T) {
	made := render(t, runtimeChart, setNamed(t, runtimeSets(), "namespaced R120"))
	for _, account := range []string{"slipway-agent", "slipway-edge"} {
		for right := range given(t, made, account) {
			if strings.HasPrefix(right, "cluster: ") && right != "cluster: get /namespaces kube-system" {
				t.Errorf("%s has %s", account, right)
			}
		}
	}
	for _, object := range append(made.Objects, made.Hooks...) {
		name := object.GetName()
		if object.GetNamespace() == "" && name != "slipway:slipway:cluster-identity" {
			t.Errorf("%s %s is outside of namespaces", object.GetKind(), name)
		}
	}
	if got := given(t, made, "slipway-agent"); !got["shop: * */* any"] || !got["home: * */* any"] {
		t.Error("the agent cannot deliver to the namespaces that are its own")
	}
}

// TestHookRights: the check before an installation reads what the values name, and
// nothing else.
func TestHookRights(t *testing.T) {
	want := rights{"home: get /secrets slipway-token": true}
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "tunnel R50")), "slipway-validate"), want)
	want["home: get /secrets prod-tls"] = true
	want["cluster: get networking.k8s.io/ingressclasses slipway"] = true
	sameRights(t, given(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "ingress with everything")), "slipway-validate"), want)
	made := render(t, runtimeChart, setNamed(t, runtimeSets(), "Gateway API with definitions"))
	want = rights{}
	for _, verb := range []string{"get", "create", "patch"} {
		want["cluster: "+verb+" gateway.networking.k8s.io/gatewayclasses public"] = true
		for _, d := range must.Get(gatewayapi.Definitions())(t) {
			want["cluster: "+verb+" apiextensions.k8s.io/customresourcedefinitions "+d.Name] = true
		}
	}
	sameRights(t, given(t, made, "slipway-definitions"), want)
	rollouts := setNamed(t, runtimeSets(), "Argo Rollouts")
	want = rights{"cluster: get apiextensions.k8s.io/customresourcedefinitions experiments.argoproj.io": true}
	for _, verb := range []string{"get", "create", "patch"} {
		for _, name := range []string{"analysisruns", "analysistemplates", "clusteranalysistemplates", "rollouts"} {
			want["cluster: "+verb+" apiextensions.k8s.io/customresourcedefinitions "+name+".argoproj.io"] = true
		}
	}
	sameRights(t, given(t, render(t, runtimeChart, rollouts), "slipway-definitions"), want)
	rollouts.set = append(rollouts.set, "argo-rollouts.crds.install=false")
	if left := given(t, render(t, runtimeChart, rollouts), "slipway-definitions"); len(left) > 0 {
		t.Errorf("R25: definitions are created: %v", left)
	}
	made = render(t, runtimeChart, setNamed(t, runtimeSets(), "skip validation R40"))
	if len(made.Hooks) > 0 {
		t.Errorf("R40: there are %d hooks", len(made.Hooks))
	}
}
