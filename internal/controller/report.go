package controller

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// Effect is what becomes of an object when Slipway serves it.
type Effect string

// The effects, the worst last.
const (
	EffectSame    Effect = "same"
	EffectDiffers Effect = "differs"
	EffectRefused Effect = "refused"
)

// MigrationReport is what becomes of the objects of other controllers.
type MigrationReport struct {
	// Objects are sorted: refused ones first, then those that differ.
	Objects []*ReportedObject `json:"objects"`
	// General are the differences of all objects of a source.
	General []ReportedDifference `json:"general,omitempty"`
	// Findings are those of the input as a whole, such as a file that cannot be read.
	Findings []finding.Finding `json:"findings,omitempty"`
	// Unread are the kinds that could not be listed, with the reason.
	Unread []UnreadKind `json:"unread,omitempty"`
	Counts ReportCounts `json:"counts"`
}

// ReportCounts is the summary.
type ReportCounts struct {
	Objects  int `json:"objects"`
	Same     int `json:"same"`
	Differs  int `json:"differs"`
	Refused  int `json:"refused"`
	Findings int `json:"findings"`
	// Requests is the number of requests whose handling was compared.
	Requests int `json:"requests"`
}

// ReportedObject is one object.
type ReportedObject struct {
	// Object is the kind and name for people, such as Ingress shop/web.
	Object string `json:"object"`
	// Source is the controller that it is written for.
	Source      difference.Source    `json:"source,omitempty"`
	Class       string               `json:"class,omitempty"`
	File        string               `json:"file,omitempty"`
	Effect      Effect               `json:"effect"`
	Differences []ReportedDifference `json:"differences,omitempty"`
	Refusals    []ReportedRefusal    `json:"refusals,omitempty"`
	Findings    []finding.Finding    `json:"findings,omitempty"`
	// Omitted is the number of further requests that are handled otherwise.
	Omitted int `json:"omitted,omitempty"`

	ref snapshot.Ref
}

// ReportedDifference is a difference with a request that shows it.
type ReportedDifference struct {
	// ID is the name of the declaration.
	ID    string `json:"id"`
	About string `json:"about"`
	// Side is the name of the other controller, and Before what it does.
	Side   string `json:"side"`
	Before string `json:"before"`
	After  string `json:"after"`
	Advice string `json:"advice,omitempty"`
	// Request is a command that sends it, with the expected responses.
	Request         string `json:"request,omitempty"`
	ExpectedBefore  string `json:"expectedBefore,omitempty"`
	ExpectedSlipway string `json:"expectedSlipway,omitempty"`
	// Accepted marks one that does not count.
	Accepted bool `json:"accepted,omitempty"`
}

// ReportedRefusal is a part of an object that is not carried out.
type ReportedRefusal struct {
	Field   string         `json:"field,omitempty"`
	Reason  refusal.Reason `json:"reason"`
	Message string         `json:"message"`
}

// UnreadKind is a kind that could not be listed.
type UnreadKind struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// ReportInput selects the objects, and the edge that would serve them.
type ReportInput struct {
	// Files are manifests, read from Input for -; without any, Cluster is read.
	Files   []string
	Input   io.Reader
	Cluster *kube.Cluster
	// Namespace is that of objects in files without one; of a cluster it is the only one
	// that is read, all if it is empty.
	Namespace string
	Options   *config.Edge
	Build     admin.Build
	// Class limits the report to objects of this class.
	Class string
	// Accept are identities of differences that do not count.
	Accept []string
}

// reporting is the working state of a report.
type reporting struct {
	ReportInput
	offline *Offline
	facts   *snapshot.Snapshot
	result  *MigrationReport
	objects map[snapshot.Ref]*ReportedObject
	// given has the routes by the options, and open those with hosts that all namespaces
	// share, as the other controllers have them.
	given, open routes
	// defaults are those of the ConfigMap of ingress-nginx.
	defaults *nginx.Settings
}

// routes are the rules that were built for one set of options.
type routes struct {
	server   *edge.Server
	table    rulesOf
	refusals []refusal.Refusal
}

// Report reads the objects and reports what becomes of each. It needs the permission to
// list Ingresses; other kinds that may not be listed are in Unread.
func Report(ctx context.Context, input ReportInput) (*MigrationReport, error) {
	r := &reporting{ReportInput: input, result: &MigrationReport{Objects: []*ReportedObject{}}, objects: map[snapshot.Ref]*ReportedObject{}}
	var files map[snapshot.Ref]string
	var err error
	if r.defaults, err = nginxDefaults(input.Options); !r.addConfigFaults(err) {
		return nil, err
	}
	if len(input.Files) > 0 {
		files, err = r.readFiles()
	} else {
		err = r.readCluster(ctx)
	}
	if err != nil {
		return nil, err
	}
	r.setOptions()
	r.adopt()
	if err := r.build(ctx); err != nil {
		return nil, err
	}
	defer r.given.server.Close()
	defer r.open.server.Close()
	r.addRefusals()
	r.addDeclared()
	r.compare()
	for ref, object := range r.objects {
		object.File = files[ref]
	}
	r.finish()
	return r.result, nil
}

// addConfigFaults adds the ConfigMap of ingress-nginx as an object, if keys of it are refused.
// It reports whether the report can go on.
func (r *reporting) addConfigFaults(err error) bool {
	var faults nginx.ConfigFaults
	if !errors.As(err, &faults) {
		return err == nil
	}
	file := r.Options.Providers.KubernetesIngressNGINX.ConfigMapFile
	ref := snapshot.Ref{Kind: snapshot.ConfigMap, Name: file}
	object := r.objectOf(ref)
	object.Source = difference.NGINX
	for _, fault := range faults {
		object.Refusals = append(object.Refusals, ReportedRefusal{Field: fault.Field, Reason: fault.Reason, Message: fault.Message})
	}
	return true
}

// readFiles reads manifests. A fault of a file is a finding.
func (r *reporting) readFiles() (map[snapshot.Ref]string, error) {
	set, err := manifest.Read(r.Files, cmp.Or(r.Namespace, "default"), r.Input)
	if err != nil {
		return nil, err
	}
	r.facts = set.Snapshot
	for _, found := range set.Findings {
		r.result.Findings = append(r.result.Findings, finding.Finding{
			Code: "File", Severity: found.Severity, Subject: joined(found.File, found.Object), Message: found.Message,
		})
	}
	return set.Files, nil
}

func joined(file, object string) string {
	if object == "" {
		return file
	}
	return file + ": " + object
}

// setOptions enables the providers of the objects. Classes are decided by adopt.
func (r *reporting) setOptions() {
	options := *r.Options
	ingress := *options.Providers.KubernetesIngress
	ingress.IngressClass, ingress.DisableIngressClassLookup, ingress.DisableClusterScopeResources = "", false, false
	options.Providers.KubernetesIngress = &ingress
	own := config.KubernetesIngressNGINX{}
	own.SetDefaults()
	if given := options.Providers.KubernetesIngressNGINX; given != nil {
		own = *given
	}
	options.Providers.KubernetesIngressNGINX = &own
	crd := config.KubernetesCRD{}
	crd.SetDefaults()
	if given := options.Providers.KubernetesCRD; given != nil {
		crd = *given
	}
	crd.IngressClass = ""
	options.Providers.KubernetesCRD = &crd
	options.Providers.KubernetesGateway = nil
	r.Options = &options
	r.offline = &Offline{Options: r.Options, Build: r.Build, facts: r.facts}
}

// build builds the routes twice: by the options, and with hosts that all namespaces
// share. What is missing is found first, and replaced for both.
func (r *reporting) build(ctx context.Context) error {
	if err := r.findMissing(ctx); err != nil {
		return err
	}
	var err error
	if r.given, err = r.routesOf(ctx, r.Options); err != nil {
		return err
	}
	open := *r.Options
	shared := *open.Providers.KubernetesIngress
	shared.HostSharing = "open"
	open.Providers.KubernetesIngress = &shared
	if r.open, err = r.routesOf(ctx, &open); err != nil {
		r.given.server.Close()
		return err
	}
	return nil
}

// routesOf builds the routes of the facts with options.
func (r *reporting) routesOf(ctx context.Context, options *config.Edge) (routes, error) {
	server, err := r.offline.newServer(ctx)
	if err != nil {
		return routes{}, err
	}
	built := buildRoutes(r.facts, server, options)
	r.offline.engine = built
	return routes{server: server, table: tableOf(server), refusals: built.Refusals()}, nil
}

// absent reports whether a refusal is about an object that is not there or not read.
// That is a finding: the object may be in the cluster, or come later.
func absent(reason refusal.Reason) bool {
	return reason == refusal.NotFound || reason == refusal.NotReady || reason == refusal.Unreadable
}

// addRefusals adds what the edge does not carry out. Hosts of other namespaces are
// differences, which compare adds.
func (r *reporting) addRefusals() {
	for _, refused := range r.given.refusals {
		ref := snapshot.RefOf(refused.Object)
		switch {
		case refused.Reason == refusal.HostNotGranted, strings.Contains(refused.Message, placeholderHost):
		case absent(refused.Reason):
			// findMissing has reported it, unless it is about something else.
			r.addFinding(ref, finding.Warning, refused)
		case refused.Reason == refusal.Unknown || refused.Reason == refusal.Ignored:
			r.addFinding(ref, finding.Info, refused)
		default:
			object := r.objectOf(ref)
			object.Refusals = append(object.Refusals, ReportedRefusal{Field: refused.Field, Reason: refused.Reason, Message: refused.Message})
		}
	}
}

// objectOf returns the entry of an object, and adds one for an object that others name,
// such as a Middleware.
func (r *reporting) objectOf(ref snapshot.Ref) *ReportedObject {
	object := r.objects[ref]
	if object == nil {
		object = &ReportedObject{Object: ref.String(), ref: ref}
		if snapshot.IsTraefik(ref.Kind) {
			object.Source = difference.Traefik
		}
		r.objects[ref] = object
	}
	return object
}

// addFinding adds a finding about an object once. That of a Middleware is with the objects
// that name it, too.
func (r *reporting) addFinding(ref snapshot.Ref, severity finding.Severity, refused refusal.Refusal) {
	object := r.objects[ref]
	if object == nil {
		return
	}
	found := finding.Finding{Code: string(refused.Reason), Severity: severity, Subject: refused.Field, Message: refused.Message}
	if !slices.Contains(object.Findings, found) {
		object.Findings = append(object.Findings, found)
	}
}

// finish decides the effects, sorts and counts.
func (r *reporting) finish() {
	counts := &r.result.Counts
	for _, object := range r.objects {
		object.Effect = EffectSame
		if slices.ContainsFunc(object.Differences, func(d ReportedDifference) bool { return !d.Accepted }) {
			object.Effect = EffectDiffers
		}
		if len(object.Refusals) > 0 {
			object.Effect = EffectRefused
		}
		r.result.Objects = append(r.result.Objects, object)
		counts.Findings += len(object.Findings)
		switch object.Effect {
		case EffectSame:
			counts.Same++
		case EffectDiffers:
			counts.Differs++
		case EffectRefused:
			counts.Refused++
		}
	}
	counts.Objects = len(r.result.Objects)
	counts.Findings += len(r.result.Findings)
	order := []Effect{EffectRefused, EffectDiffers, EffectSame}
	slices.SortFunc(r.result.Objects, func(a, b *ReportedObject) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Effect), slices.Index(order, b.Effect)), a.ref.Compare(b.ref))
	})
}

// errNoIngresses is returned if nothing can be reported.
var errNoIngresses = errors.New("neither Ingresses nor IngressRoutes may be listed: a role needs list for ingresses.networking.k8s.io, in all namespaces or in that of --namespace")
