package resolve

import (
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Ingress resolves an Ingress. What it reads is noted in the view, also for an
// Ingress that is not ours: what could make it ours.
//
// An Ingress that is being deleted is resolved like any other: it is served
// until it is gone.
func Ingress(view *snapshot.View, namespace, name string, options Options, backends BackendResolver) *ResolvedIngress {
	site := &ResolvedIngress{Ingress: snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: name}}
	object := view.Ingress(namespace, name)
	if object == nil || !ours(view, object, options) {
		return site
	}
	site.Ours = true
	site.Created = createdAt(object)
	site.AllowEmpty = options.AllowEmptyServices
	r := &resolver{
		source:    reference.Source{View: view, Namespace: namespace, CrossNamespace: options.CrossNamespace},
		object:    object,
		options:   options,
		backends:  backends,
		resolved:  site,
		summaries: map[route.BackendID]BackendSummary{},
		hosts:     map[string]bool{},
		noted:     map[snapshot.Refusal]bool{},
	}
	r.readAnnotations()
	r.readRules()
	r.readDefault()
	r.readPolicies()
	r.readCertificates()
	r.readHandshakes()
	r.finish()
	return site
}

// resolver is the work on one Ingress.
type resolver struct {
	source   reference.Source
	object   *networkingv1.Ingress
	options  Options
	backends BackendResolver
	resolved *ResolvedIngress

	settings settings
	// ruleHosts are the hosts of rules, in their order, each with the first rule
	// that has it. The empty host is one of them.
	ruleHosts []ruleHost
	// hosts are all that were accepted.
	hosts     map[string]bool
	summaries map[route.BackendID]BackendSummary
	// steps are those of all expressions so far.
	steps int

	noted   map[snapshot.Refusal]bool
	omitted int
}

// ruleHost is a host and the first rule that has it.
type ruleHost struct {
	host string
	rule int
}

// createdAt is the age of an Ingress. A time that cannot be written down is
// taken for the latest one: nobody gets older by it.
func createdAt(object *networkingv1.Ingress) time.Time {
	created := object.CreationTimestamp.UTC()
	if _, err := created.MarshalText(); err != nil {
		return time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	}
	return created
}

// summaryOf asks about a backend, once.
func (r *resolver) summaryOf(id route.BackendID) BackendSummary {
	look, known := r.summaries[id]
	if !known {
		look = r.backends.Summary(id)
		r.summaries[id] = look
	}
	return look
}

// finish fills in what follows from everything else.
func (r *resolver) finish() {
	site := r.resolved
	for host := range r.hosts {
		site.Hosts = append(site.Hosts, host)
	}
	slices.Sort(site.Hosts)
	for id := range r.summaries {
		site.Backends = append(site.Backends, id)
	}
	slices.SortFunc(site.Backends, route.BackendID.Compare)
	r.reportOmitted()
}
