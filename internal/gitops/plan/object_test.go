package plan_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

var (
	tracker = tracking.Tracker{ControlNamespace: "argocd"}
	shop    = tracking.App{Namespace: "argocd", Name: "shop"}
)

// scopeOf knows some kinds of a cluster. Those of new.example are not there.
func scopeOf(kind schema.GroupKind) plan.Scope {
	switch {
	case kind.Group == "new.example":
		return plan.UnknownScope
	case kind.Kind == "Namespace" || strings.HasPrefix(kind.Kind, "Cluster") || kind.Kind == "CustomResourceDefinition":
		return plan.ClusterScope
	}
	return plan.NamespaceScope
}

// gate refuses what has "forbidden" in its name or namespace.
type gate struct{ asked map[tracking.Key]bool }

func (g gate) Allows(key tracking.Key, _ *unstructured.Unstructured, _ string) *refusal.Refusal {
	if g.asked != nil {
		g.asked[key] = true
	}
	if strings.Contains(key.Namespace+key.Name, "forbidden") {
		return refusal.New("", refusal.NotAllowed, "the project does not allow it")
	}
	return nil
}

// TakesOver refuses what has "kept" in its name.
func (g gate) TakesOver(key tracking.Key) *refusal.Refusal {
	if strings.Contains(key.Name, "kept") {
		return refusal.New("", refusal.NotAllowed, "another Application owns it")
	}
	return nil
}

// parseKey reads Deployment.apps shop/web.
func parseKey(text string) tracking.Key {
	kindText, name, _ := strings.Cut(text, " ")
	var key tracking.Key
	key.Kind, key.Group, _ = strings.Cut(kindText, ".")
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		key.Namespace, name = namespace, rest
	}
	key.Name = name
	return key
}

// object reads one line: a key, and words that become annotations or other
// fields. A live object is marked as the Application's unless owner= names
// another.
func object(t testing.TB, line string, live bool) *unstructured.Unstructured {
	t.Helper()
	words := strings.Fields(line)
	key := parseKey(words[0] + " " + words[1])
	version := "v1"
	if key.Group != "" {
		version = key.Group + "/v1"
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": key.Kind}}
	made.SetName(key.Name)
	made.SetNamespace(key.Namespace)
	if live && key.Namespace == "" && scopeOf(key.GroupKind()) != plan.ClusterScope {
		made.SetNamespace("shop")
	}
	owner := ""
	annotations := map[string]string{}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, "=")
		if annotation, ok := shortAnnotations[name]; ok {
			annotations[annotation] = value
			continue
		}
		switch name {
		case "owner":
			owner = value
		case "generate":
			made.SetName("")
			made.SetGenerateName(key.Name)
		case "uid":
			made.SetUID(types.UID(value))
		case "owned":
			made.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "x", UID: "1"}})
		case "defines":
			define(made, value)
		default:
			t.Fatalf("%q: what is %q?", line, word)
		}
	}
	if len(annotations) > 0 {
		made.SetAnnotations(annotations)
	}
	if live {
		mark(made, owner)
	}
	return made
}

var shortAnnotations = map[string]string{
	"hook":        "argocd.argoproj.io/hook",
	"policy":      "argocd.argoproj.io/hook-delete-policy",
	"wave":        "argocd.argoproj.io/sync-wave",
	"options":     "argocd.argoproj.io/sync-options",
	"compare":     "argocd.argoproj.io/compare-options",
	"helm":        "helm.sh/hook",
	"helm-policy": "helm.sh/hook-delete-policy",
	"weight":      "helm.sh/hook-weight",
	"resource":    "helm.sh/resource-policy",
}

// define makes an object a definition of kind.group or kind.group/Cluster.
func define(made *unstructured.Unstructured, value string) {
	text, scope, _ := strings.Cut(value, "/")
	kind, group, _ := strings.Cut(text, ".")
	made.Object["spec"] = map[string]any{"group": group, "names": map[string]any{"kind": kind}}
	if scope != "" {
		made.Object["spec"].(map[string]any)["scope"] = scope
	}
}

// mark makes a live object one of the Application, of another one, or of none.
func mark(made *unstructured.Unstructured, owner string) {
	switch owner {
	case "":
		tracker.Stamp(made, shop)
	case "nobody":
	case "argo": // Argo CD's mark alone, as on a cluster that is taken over
		tracker.Stamp(made, shop)
		made.SetLabels(nil)
	default:
		tracker.Stamp(made, tracking.App{Namespace: "argocd", Name: owner})
	}
}

func lines(text string) []string {
	var found []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			found = append(found, line)
		}
	}
	return found
}

// show is a plan as text.
func show(p *plan.Plan) string {
	var text strings.Builder
	for _, phase := range p.Phases {
		for _, wave := range phase.Waves {
			switch {
			case wave.PruneLast:
				fmt.Fprintf(&text, "%s, prune last\n", phase.Name)
			case wave.Prune:
				fmt.Fprintf(&text, "%s, prune wave %d\n", phase.Name, wave.Number)
			default:
				fmt.Fprintf(&text, "%s, wave %d\n", phase.Name, wave.Number)
			}
			for _, step := range wave.Steps {
				fmt.Fprintf(&text, "  %s %s%s\n", step.Action, step.Key, flags(step))
			}
		}
	}
	for _, refused := range p.Refusals {
		fmt.Fprintf(&text, "refused (%s) %s\n", refused.Reason, refused.Error())
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(&text, "%s %s\n", warning.Code, warning)
	}
	for _, skipped := range p.Skipped {
		word := "skipped"
		if skipped.Kept {
			word = "kept"
		}
		fmt.Fprintf(&text, "%s %s: %s\n", word, skipped.Key, skipped.Reason)
	}
	if p.Blocked {
		text.WriteString("blocked\n")
	}
	return text.String()
}

func flags(step *plan.Step) string {
	text := ""
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"force", step.Options.Force}, {"replace", step.Options.Replace && step.Hook != nil}, {"unvalidated", step.Options.SkipValidation},
		{"without-dry-run", step.Options.SkipDryRun}, {"respecting-ignored", step.Options.RespectIgnoreDifferences},
		{"confirm", step.Options.Confirm},
	} {
		if flag.set {
			text += " " + flag.name
		}
	}
	if p := step.Options.Propagation; p != "" && p != metav1.DeletePropagationForeground {
		text += " " + string(p)
	}
	return text
}
