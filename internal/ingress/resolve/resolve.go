package resolve

import (
	"maps"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Ingress resolves an Ingress. The view records what it reads, also for an Ingress
// that is not ours: a change of its class could make it ours.
//
// An Ingress with a deletion timestamp is served until it is gone, but gives way to
// all others.
func Ingress(view *snapshot.View, namespace, name string, options Options, backends BackendResolver) *ResolvedIngress {
	resolved := &ResolvedIngress{Ingress: snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: name}}
	object := view.Ingress(namespace, name)
	if object == nil {
		return resolved
	}
	asNGINX := ofNGINX(view, object, options)
	if !asNGINX && !ours(view, object, options) {
		return resolved
	}
	resolved.Ours = true
	resolved.Created = createdAt(object)
	resolved.AllowEmpty = options.AllowEmptyServices
	r := &resolver{
		source:    reference.Source{View: view, Namespace: namespace, CrossNamespace: options.CrossNamespace},
		object:    object,
		options:   options,
		backends:  backends,
		resolved:  resolved,
		summaries: map[route.BackendID]BackendSummary{},
		hosts:     map[string]bool{},
		noted:     map[refusal.Refusal]bool{},
	}
	r.readAnnotations()
	if asNGINX {
		r.readNGINX()
	}
	r.readRules()
	r.readRouterPriority()
	r.readDefault()
	r.finishNGINX()
	r.readPolicies()
	r.readCertificates()
	r.readHandshakes()
	r.finish()
	return resolved
}

// resolver is the working state for one Ingress.
type resolver struct {
	source   reference.Source
	object   *networkingv1.Ingress
	options  Options
	backends BackendResolver
	resolved *ResolvedIngress

	settings settings
	// nginx is the state of an Ingress of ingress-nginx, nil for others.
	nginx *nginxState
	// ruleHosts are the hosts of rules in order, the empty one included, each
	// with the first rule that has it.
	ruleHosts []ruleHost
	// hosts are all accepted hosts.
	hosts     map[string]bool
	summaries map[route.BackendID]BackendSummary
	// steps sums the size of all regular expressions so far.
	steps int

	noted   map[refusal.Refusal]bool
	omitted int
}

// ruleHost is a host and the first rule that has it.
type ruleHost struct {
	host string
	rule int
}

// latest is the creation time of an Ingress that must not win a host by age.
var latest = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// createdAt returns the creation time of an Ingress. An Ingress that is being deleted
// counts as the youngest: a finalizer can keep it for long, and its host, or the
// default backend of the cluster, must not wait for that. So does one with an
// invalid time, which JSON cannot represent.
func createdAt(object *networkingv1.Ingress) time.Time {
	created := object.CreationTimestamp.UTC()
	if _, err := created.MarshalText(); err != nil || object.DeletionTimestamp != nil {
		return latest
	}
	return created
}

// summaryOf returns the summary of a backend, resolved once per Ingress.
func (r *resolver) summaryOf(id route.BackendID) BackendSummary {
	summary, known := r.summaries[id]
	if !known {
		summary = r.backends.Summary(id)
		r.summaries[id] = summary
	}
	return summary
}

// finish sets the fields that are derived from all steps.
func (r *resolver) finish() {
	resolved := r.resolved
	resolved.Hosts = slices.Collect(maps.Keys(r.hosts))
	if slices.ContainsFunc(resolved.Paths, func(path Path) bool { return path.Host == "" }) {
		resolved.Hosts = append(resolved.Hosts, "")
	}
	slices.Sort(resolved.Hosts)
	resolved.Backends = slices.SortedFunc(maps.Keys(r.summaries), route.BackendID.Compare)
	r.reportOmitted()
}
