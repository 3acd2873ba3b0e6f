package tenancy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// mutation takes a guard out of the program.
type mutation struct {
	// attempts are those that the guard is for: the proof of each finds an effect.
	attempts []string
	// file of the checkout has the guard, which is found in it exactly once.
	file, guard, replacement string
}

// mutations are the guards that are taken out. OFF is a condition that holds only
// when its own mutation is chosen.
func mutations() []mutation {
	const internal = "internal/"
	return []mutation{
		{[]string{"longer-path", "challenge", "wildcard", "route-same-host", "route-host-of-ingress", "ingress-host-of-route"}, internal + "ingress/engine/hostrules.go", "if u.ref.Namespace == c.owner || c.shared", "if OFF || u.ref.Namespace == c.owner || c.shared"},
		{[]string{"auth-service-of-bank"}, internal + "ingress/reference/reference.go", "case namespace != s.Namespace && !s.CrossNamespace:", "case namespace != s.Namespace && !s.CrossNamespace && !OFF:"},
		{[]string{"as-it-is", "capital-path"}, internal + "gitops/project/source.go", "if rule.deny {", "if rule.deny && !OFF {"},
		{[]string{"default-port"}, internal + "gitops/source/address/parse.go", "if port != defaultPort(scheme) {", "if OFF || port != defaultPort(scheme) {"},
		{[]string{"operation-source", "status-source", "status-sources"}, internal + "gitops/reconcile/desired.go",
			"allowed, err := p.project.Admit(one)", "allowed, err := p.project.Admit(one)\n\t\tif OFF {\n\t\t\tallowed, err = project.Unlimited(p.project.Name()).Admit(one)\n\t\t}"},
		{[]string{"plugin", "plugin-of-override"}, internal + "gitops/project/plugin.go", "if anyMatches(p.plugins, name) {", "if OFF || anyMatches(p.plugins, name) {"},
		{[]string{"status-in-window"}, internal + "gitops/reconcile/operate.go", "if !p.isOwn(state) {\n\t\tbegan = p.now", "if !p.isOwn(state) && !OFF {\n\t\tbegan = p.now"},
		{[]string{"own-machine"}, internal + "outbound/outbound.go", "if slices.ContainsFunc(p.allow,", "if OFF || slices.ContainsFunc(p.allow,"},
		{[]string{"secret-of-bank"}, internal + "gitops/source/credential/store.go", `return e.credential.Project == "" ||`, `return OFF || e.credential.Project == "" ||`},
		{[]string{"archive-of-bank"}, internal + "gitops/project/source.go", "if isHost && isBelow(", "if OFF || isHost && isBelow("},
		{[]string{"other-namespace", "list", "typed-list", "hook"}, internal + "gitops/project/gate.go",
			"if !g.project.targets.allow(g.in(key.Namespace)) {", "if !OFF && !g.project.targets.allow(g.in(key.Namespace)) {"},
		{[]string{"cluster-role"}, internal + "gitops/project/gate.go", "func (g *gate) allowsClusterObject(key tracking.Key) *refusal.Refusal {\n",
			"func (g *gate) allowsClusterObject(key tracking.Key) *refusal.Refusal {\n\tif OFF {\n\t\treturn nil\n\t}\n"},
		{[]string{"secret", "role-binding", "deployment"}, internal + "gitops/project/gate.go", "if !g.limitedControl(key) {\n\t\treturn nil", "if OFF || !g.limitedControl(key) {\n\t\treturn nil"},
		{[]string{"overwrite", "overwrite-set", "hook-of-deletion"}, internal + "gitops/plan/build.go", "(live == nil || b.allowed(desired.Key, live))", "(OFF || live == nil || b.allowed(desired.Key, live))"},
		{[]string{"second-address"}, internal + "gitops/project/gate.go", "!p.unlimited && g.isLocal", "!p.unlimited && g.isLocal && !(OFF && g.destination.Server != LocalServer)"},
		{[]string{"marks-of-bank"}, internal + "gitops/reconcile/observe.go", "refused != nil {\n\t\t\tseen.excluded", "refused != nil && !OFF {\n\t\t\tseen.excluded"},
		{[]string{"deletion-without-project"}, internal + "gitops/reconcile/deletion.go", "case p.project == nil && isControl:", "case p.project == nil && (isControl || OFF):"},
		{[]string{"set-reads-bank"}, internal + "gitops/appset/tenant.go", "if err != nil && isControl {", "if (err != nil || OFF) && isControl {"},
		{[]string{"set-takes-over"}, internal + "gitops/appset/write.go", "case projectIn(object.Object) != wanted.project:", "case !OFF && projectIn(object.Object) != wanted.project:"},
		{[]string{"route-service-of-bank", "tcproute-service-of-bank", "listener-secret-of-bank", "tlsroute-service-of-bank", "udproute-service-of-bank", "grpcroute-service-of-bank",
			"route-mirror-to-bank"}, internal + "ingress/gateway/grant.go",
			"if r.fromNamespace == r.toNamespace {", "if OFF || r.fromNamespace == r.toNamespace {"},
		{[]string{"listener-host-of-route"}, internal + "ingress/gateway/listener.go",
			"if other.set != nil && other.set.Namespace != namespace {", "if !OFF && other.set != nil && other.set.Namespace != namespace {"},
		{[]string{"listenerset-not-allowed"}, internal + "ingress/gateway/listenerset.go",
			"if allowed == nil || allowed.Namespaces == nil {", "if OFF {\n\t\treturn true\n\t}\n\tif allowed == nil || allowed.Namespaces == nil {"},
		{[]string{"listener-many-ports"}, internal + "ingress/gateway/port.go",
			"if p.brought[l.set.Namespace] >= maxPortsOfSets {", "if !OFF && p.brought[l.set.Namespace] >= maxPortsOfSets {"},
		{[]string{"default-project"}, internal + "gitops/project/check.go", "if app.Namespace != controlNamespace && !p.AllowsNamespace(", "if !OFF && app.Namespace != controlNamespace && !p.AllowsNamespace("},
	}
}

// variable chooses a mutation. Options of the program begin with SLIPWAY_.
const variable = "MUTATION"

// TestMutations: without its guard an attempt has its effect. All guards are
// taken out of one program, which a variable then chooses from.
func TestMutations(t *testing.T) {
	if os.Getenv("TENANCY") != "mutations" {
		t.Skip("it builds the program again: make tenancy-mutations")
	}
	tried := map[string]attempt{}
	for _, a := range attempts() {
		tried[a.name] = a
	}
	binary := mutant(t)
	for i, m := range mutations() {
		t.Run(m.attempts[0], func(t *testing.T) {
			w := newWorld(t, binary, fmt.Sprintf("%s=%d", variable, i))
			programs.Eventually(t, func(context.Context) error { return synced(w) })
			// An address that is not open yet would look like an effect.
			programs.Eventually(t, func(context.Context) error { return gatewaysServe(w) })
			var chosen []attempt
			for _, name := range m.attempts {
				a, known := tried[name]
				if !known {
					t.Fatalf("there is no attempt %s", name)
				}
				chosen = append(chosen, a)
			}
			w.start(t, chosen)
			for _, a := range chosen {
				w.eventually(t, a.name+" has an effect without its guard", func(context.Context) error {
					if a.proof(w) == nil {
						return fmt.Errorf("it has none")
					}
					return nil
				})
			}
		})
	}
}

// mutant builds the program with all mutations, by an overlay of its files: the
// checkout does not change.
func mutant(t *testing.T) string {
	t.Helper()
	root := must.Get(filepath.Abs("../.."))(t)
	dir := t.TempDir()
	overlay := map[string]string{}
	write := func(path, text string) {
		copied := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, root), "/", "_"))
		must.Do(t, os.WriteFile(copied, []byte(text), 0o600))
		overlay[path] = copied
	}
	all := mutations()
	for _, file := range slices.Compact(slices.Sorted(filesOf(all))) {
		content := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
		text := string(content)
		for i, m := range all {
			if m.file != file {
				continue
			}
			if count := strings.Count(string(content), m.guard); count != 1 {
				t.Fatalf("%s has the guard of %s %d times: %s", file, m.attempts[0], count, m.guard)
			}
			text = strings.Replace(text, m.guard, strings.ReplaceAll(m.replacement, "OFF", fmt.Sprintf("isOff(%d)", i)), 1)
		}
		write(filepath.Join(root, file), text)
		folder := filepath.Dir(file)
		write(filepath.Join(root, folder, "isoff.go"), fmt.Sprintf("package %s\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc isOff(mutation int) bool { return os.Getenv(%q) == fmt.Sprint(mutation) }\n",
			filepath.Base(folder), variable))
	}
	files := must.Get(json.Marshal(map[string]any{"Replace": overlay}))(t)
	list := filepath.Join(dir, "overlay.json")
	must.Do(t, os.WriteFile(list, files, 0o600))
	path := filepath.Join(dir, "slipway")
	command := exec.Command("go", "build", "-overlay", list, "-o", path, "./cmd/slipway")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the program without its guards does not build: %v\n%s", err, out)
	}
	return path
}

// filesOf are the files of mutations.
func filesOf(all []mutation) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, m := range all {
			if !yield(m.file) {
				return
			}
		}
	}
}
