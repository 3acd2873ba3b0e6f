package controller

import (
	"slices"

	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// addDeclared adds the declared differences of each object, and the general ones of the
// sources that there are.
func (r *reporting) addDeclared() {
	rules := map[snapshot.Ref][]*route.Rule{}
	for _, rule := range r.given.table.server.Table().Rules {
		ref := refOfRule(rule.ID)
		rules[ref] = append(rules[ref], rule)
	}
	uses := usesOf(rules)
	view := r.facts.View()
	_, encrypted := r.points()
	plain := encrypted == "" || len(r.Options.EntryPoints) > 1
	sources := map[difference.Source]bool{}
	for ref, object := range r.objects {
		sources[object.Source] = true
		subject := &difference.Subject{
			Source: object.Source, Rules: rules[ref], Uses: uses, Plain: plain,
			Middleware: func(namespace, name string) map[string]any { return middlewareSpec(view, namespace, name) },
		}
		slices.SortFunc(subject.Rules, func(a, b *route.Rule) int { return a.ID.Compare(b.ID) })
		if ref.Kind == snapshot.Ingress {
			subject.Annotations = r.facts.Ingress(ref.Namespace, ref.Name).Annotations
			if object.Source == difference.NGINX {
				subject.NGINX, _, _ = nginx.Parse(subject.Annotations, r.defaults)
			}
		}
		for _, found := range difference.Find(subject) {
			r.addDifference(object, found.Difference, found.Example)
		}
	}
	for _, source := range []difference.Source{difference.NGINX, difference.Traefik, difference.Plain} {
		list := difference.Of(source)
		for i := range list {
			if list[i].General && sources[source] {
				r.result.General = append(r.result.General, r.reported(&list[i], source))
			}
		}
	}
}

// middlewareSpec returns the spec of a Middleware of Traefik, of either group.
func middlewareSpec(view *snapshot.View, namespace, name string) map[string]any {
	kinds := []snapshot.Kind{snapshot.TraefikMiddleware}
	if old, known := snapshot.OldTraefikKind(snapshot.TraefikMiddleware); known {
		kinds = append(kinds, old)
	}
	for _, kind := range kinds {
		if found, _ := view.Resource(kind, namespace, name); found != nil {
			return found.Spec
		}
	}
	return nil
}

// usesOf counts the objects that have each policy.
func usesOf(rules map[snapshot.Ref][]*route.Rule) map[route.PolicyID]int {
	uses := map[route.PolicyID]int{}
	for _, list := range rules {
		seen := map[route.PolicyID]bool{}
		for _, rule := range list {
			for i := range rule.Policies {
				if id := rule.Policies[i].ID; !seen[id] {
					seen[id] = true
					uses[id]++
				}
			}
		}
	}
	return uses
}

// reported returns a declaration for the report.
func (r *reporting) reported(d *difference.Difference, side difference.Source) ReportedDifference {
	return ReportedDifference{
		ID: d.ID, About: d.About, Side: side.Side(), Before: d.Before, After: d.After, Advice: d.Advice, Accepted: slices.Contains(r.Accept, d.ID),
	}
}

// addDifference adds a difference of an object.
func (r *reporting) addDifference(object *ReportedObject, d *difference.Difference, example difference.Example) {
	made := r.reported(d, object.Source)
	made.Request, made.ExpectedBefore, made.ExpectedSlipway = example.Command(), example.Before, example.After
	object.Differences = append(object.Differences, made)
}

// computed returns the declaration of a computed difference.
func computed(id string) *difference.Difference {
	list := difference.Computed()
	at := slices.IndexFunc(list, func(d difference.Difference) bool { return d.ID == id })
	return &list[at]
}
