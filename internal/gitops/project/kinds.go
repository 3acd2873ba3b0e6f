package project

import (
	"cmp"
	"fmt"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// kindRule is a pattern of objects.
type kindRule struct{ group, kind, name rule }

func (r *kindRule) has(key tracking.Key) bool {
	return r.group.Match(key.Group) && r.kind.Match(key.Kind) && r.name.Match(key.Name)
}

// kindLists are what may be touched, and what not.
type kindLists struct {
	// all: there is no list of what may be touched, so that everything may.
	all         bool
	allow, deny []kindRule
}

// decision is the result of the lists for an object.
type decision int

const (
	permitted decision = iota
	notListed
	forbidden
)

func (l *kindLists) decide(key tracking.Key) decision {
	for i := range l.deny {
		if l.deny[i].has(key) {
			return forbidden
		}
	}
	if l.all {
		return permitted
	}
	for i := range l.allow {
		if l.allow[i].has(key) {
			return permitted
		}
	}
	return notListed
}

// names reports whether the list of what may be touched has a kind by its name,
// and not by a pattern.
func (l *kindLists) names(key tracking.Key) bool {
	return slices.ContainsFunc(l.allow, func(one kindRule) bool {
		return one.group.literal == key.Group && one.kind.literal == key.Kind && one.has(key)
	})
}

// kinds compiles a list. An empty name is a pattern of all names.
func (c *compiler) kinds(given []v1alpha1.ClusterResourceRule, place string, parse func(string) (rule, error)) []kindRule {
	var rules []kindRule
	for i, one := range given {
		at := fmt.Sprintf("%s[%d]", place, i)
		name := cmp.Or(one.Name, "*")
		rules = append(rules, kindRule{
			group: c.rule(parse, one.Group, at+".group"),
			kind:  c.rule(parse, one.Kind, at+".kind"),
			name:  c.rule(parse, name, at+".name"),
		})
	}
	return rules
}

// withoutNames gives the lists for objects with a namespace the form of the
// others.
func withoutNames(given []v1alpha1.ResourceRule) []v1alpha1.ClusterResourceRule {
	rules := make([]v1alpha1.ClusterResourceRule, len(given))
	for i, one := range given {
		rules[i] = v1alpha1.ClusterResourceRule{Group: one.Group, Kind: one.Kind}
	}
	return rules
}

// isClusterKind lists the kinds without a namespace that give the most rights.
// A manifest can write a namespace into them; that must not make them pass as
// something of the namespace, even if other code treats them so.
func isClusterKind(key tracking.Key) bool {
	switch key.Group {
	case "":
		return key.Kind == "Namespace" || key.Kind == "Node" || key.Kind == "PersistentVolume"
	case "rbac.authorization.k8s.io":
		return key.Kind == "ClusterRole" || key.Kind == "ClusterRoleBinding"
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io",
		"flowcontrol.apiserver.k8s.io", "scheduling.k8s.io":
		return true
	}
	return false
}
