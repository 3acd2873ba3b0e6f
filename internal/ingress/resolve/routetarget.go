package resolve

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/route"
)

const (
	// maxGroupDepth bounds TraefikServices in TraefikServices, and maxServices the
	// services of one route.
	maxGroupDepth = 4
	maxServices   = route.MaxBackendRefs
)

// readTarget resolves Middlewares and services of a route. A route with a fault is closed:
// it must not be served without a part of it.
func (r *routeResolver) readTarget(written *traefik.Route, match *RouteMatch) Target {
	var closed *refusal.Refusal
	for i := range written.Faults {
		if fault := r.refuse(r.resolved.Ingress, &written.Faults[i]); closed == nil {
			closed = fault
		}
	}
	if closed != nil {
		return Target{Closed: closed}
	}
	if match.Policies, closed = r.routePolicies(written); closed != nil {
		return Target{Closed: closed}
	}
	target, closed := r.readServices(written, match)
	if closed == nil {
		closed = r.checkRoute(written, match)
	}
	if closed != nil {
		return Target{Closed: closed}
	}
	return target
}

// readServices resolves the services of a route: to one target, or to shares.
func (r *routeResolver) readServices(written *traefik.Route, match *RouteMatch) (Target, *refusal.Refusal) {
	switch {
	case len(written.Services) == 0:
		return Target{}, r.refuseHere(written.Field+".services", refusal.Invalid, "nothing serves the requests: name a Service")
	case len(written.Services) == 1 && written.Services[0].Group && written.Services[0].Name == traefik.NoopService:
		match.Response = &route.Response{Status: 418, Reason: route.ReasonConfigured, Message: "the route has no service but " + traefik.NoopService}
		return Target{}, nil
	}
	walk := &groupWalk{routeResolver: r, match: match, alone: len(written.Services) == 1}
	shares, fault := walk.shares(written.Services, r.source, 0)
	if fault != nil {
		return Target{}, fault
	}
	shares = merge(shares)
	usable := slices.ContainsFunc(shares, func(share Share) bool { return share.Target.Closed == nil && share.Target.Missing == nil })
	if len(shares) == 1 || !usable {
		match.Sticky = nil // there is one target
		return shares[0].Target, nil
	}
	match.Shares = shares
	return Target{}, nil
}

// groupWalk is the traversal of the services of a route.
type groupWalk struct {
	*routeResolver
	match *RouteMatch
	// alone is set while all requests of the route go to the group that is read, so that
	// its cookie and mirrors are those of the route.
	alone  bool
	visits int
}

// shares returns the shares of a list of services. The share of a group is divided among
// its own services.
func (w *groupWalk) shares(uses []traefik.ServiceUse, source reference.Source, depth int) ([]Share, *refusal.Refusal) {
	parts := make([][]Share, len(uses))
	sums, product := make([]uint64, len(uses)), uint64(1)
	for i := range uses {
		if w.visits++; w.visits > maxServices {
			return nil, w.refuseHere(uses[i].Field, refusal.TooLarge, "the route leads to more than %d services: use fewer", maxServices)
		}
		part, fault := w.share(&uses[i], source, depth)
		if fault != nil {
			return nil, fault
		}
		for _, share := range part {
			sums[i] += uint64(share.Weight)
		}
		sums[i] = max(sums[i], 1)
		parts[i] = part
		if product *= sums[i]; product > math.MaxInt32 {
			return nil, w.refuseHere(uses[i].Field, refusal.TooLarge, "the weights of nested services are too large: use smaller ones")
		}
	}
	var all []Share
	for i, part := range parts {
		for _, share := range part {
			// The bounds of weights and of the product keep this below 2^63.
			weight := uint64(uses[i].Weight) * (product / sums[i]) * uint64(share.Weight)
			if weight > math.MaxInt32 {
				return nil, w.refuseHere(uses[i].Field, refusal.TooLarge, "the weights of nested services are too large: use smaller ones")
			}
			all = append(all, Share{Target: share.Target, Weight: uint32(weight), Fallback: share.Fallback})
		}
	}
	return all, nil
}

// share returns the shares of one service: one, or those of a group.
func (w *groupWalk) share(use *traefik.ServiceUse, source reference.Source, depth int) ([]Share, *refusal.Refusal) {
	if !use.Group {
		return []Share{{Target: w.serviceTarget(use, source), Weight: 1}}, nil
	}
	if depth == maxGroupDepth {
		return nil, w.refuseHere(use.Field, refusal.TooLarge, "TraefikServices are nested more than %d deep", maxGroupDepth)
	}
	object, fault := source.Resource(snapshot.TraefikService, use.Name)
	if fault != nil {
		return nil, w.refuse(w.resolved.Ingress, fault.At(use.Field))
	}
	group, faults := traefik.TraefikServices(object)
	if len(faults) > 0 {
		return nil, w.refuseObject(object, use.Field, faults)
	}
	source = source.In(object.Namespace)
	if group.Failover {
		return w.failover(use, &group, source)
	}
	if !w.alone && (group.Sticky != nil || len(group.Mirrors) > 0) {
		return nil, w.refuseHere(use.Field, refusal.Unsupported, "the TraefikService %s/%s has a cookie or mirrors, and gets a share of the requests only: use it alone", object.Namespace, object.Name)
	}
	if group.Sticky != nil {
		w.match.Sticky = group.Sticky
	}
	for i := range group.Mirrors {
		if fault := w.mirror(&group.Mirrors[i], source); fault != nil {
			return nil, fault
		}
	}
	w.alone = w.alone && len(group.Services) == 1
	return w.shares(group.Services, source, depth+1)
}

// failover returns a Service and its fallback. A Service that is missing, or has no endpoint
// that is healthy, is replaced by the fallback; one that is refused is not.
func (w *groupWalk) failover(use *traefik.ServiceUse, group *traefik.ServiceGroup, source reference.Source) ([]Share, *refusal.Refusal) {
	if !w.alone {
		return nil, w.refuseHere(use.Field, refusal.Unsupported, "a TraefikService with failover gets a share of the requests only: use it alone")
	}
	first := Share{Target: w.serviceTarget(&group.Services[0], source), Weight: 1}
	second := Share{Target: w.serviceTarget(&group.Services[1], source), Weight: 1}
	switch {
	case first.Target.Missing != nil:
		return []Share{second}, nil
	case first.Target.Closed != nil || second.Target.Closed != nil || second.Target.Missing != nil || first.Target.Backend == second.Target.Backend:
		return []Share{first}, nil
	}
	second.Fallback = true
	return []Share{first, second}, nil
}

// mirror adds the policy of a mirror. One whose Service is missing is left out, and the
// requests are served.
func (w *groupWalk) mirror(mirror *traefik.Mirror, source reference.Source) *refusal.Refusal {
	if mirror.Service.Group {
		return w.refuseHere(mirror.Service.Field, refusal.Unsupported, "a mirror is a Service, and not a TraefikService")
	}
	target := w.serviceTarget(&mirror.Service, source)
	if target.Closed == nil && target.Missing == nil && mirror.Percent > 0 {
		w.match.Policies = append(slices.Clip(w.match.Policies), route.Policy{Mirror: &route.Mirror{
			Backend: target.Backend, Percent: mirror.Percent, MaxBodyBytes: mirror.MaxBodyBytes,
		}})
	}
	return nil
}

// merge adds up the shares of one backend and divides the weights by what they have in
// common. Faults stay apart.
func merge(shares []Share) []Share {
	var merged []Share
	common := uint32(0)
	for _, share := range shares {
		at := slices.IndexFunc(merged, func(before Share) bool {
			return share.Target.Backend != (route.BackendID{}) && before.Target.Backend == share.Target.Backend
		})
		if at < 0 {
			merged = append(merged, share)
			continue
		}
		merged[at].Weight += share.Weight
	}
	for _, share := range merged {
		common = divisor(common, share.Weight)
	}
	for i := range merged {
		merged[i].Weight /= max(common, 1)
	}
	return merged
}

// divisor returns the greatest common divisor; that of 0 and a number is the number.
func divisor(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// serviceTarget resolves a Service with the settings of its use.
func (r *routeResolver) serviceTarget(use *traefik.ServiceUse, source reference.Source) Target {
	id, target := r.serviceID(use, source)
	switch {
	case id == (route.BackendID{}):
		return target
	case use.Settings == nil:
		return r.targetWith(use, id, r.summaryOf(id))
	}
	settings := qualified(use.Settings, id.Namespace, source.Namespace)
	id.Variant = variantOf(settings)
	r.summaries[id] = r.routes.SummaryWith(id, settings)
	return r.targetWith(use, id, r.summaries[id])
}

// serviceID returns the identity of the port that a use names. It is zero if there is none,
// and the target has the reason.
func (r *routeResolver) serviceID(use *traefik.ServiceUse, source reference.Source) (route.BackendID, Target) {
	return r.serviceIDOf(corev1.ProtocolTCP, use, source)
}

// serviceIDOf is serviceID for a port of a protocol.
func (r *routeResolver) serviceIDOf(protocol corev1.Protocol, use *traefik.ServiceUse, source reference.Source) (route.BackendID, Target) {
	port := networkingv1.ServiceBackendPort{Name: use.Port}
	if number, err := strconv.ParseUint(use.Port, 10, 16); err == nil {
		port = networkingv1.ServiceBackendPort{Number: int32(number)}
	}
	if use.Port == "" {
		return route.BackendID{}, Target{Closed: r.refuseHere(use.Field+".port", refusal.Invalid, "the port of the Service is missing")}
	}
	id, fault := source.BackendOf(protocol, use.Name, port)
	if fault == nil {
		return id, Target{}
	}
	fault = r.refuse(r.resolved.Ingress, fault.At(use.Field))
	if fault.Reason == refusal.NotFound {
		return route.BackendID{}, Target{Missing: fault}
	}
	return route.BackendID{}, Target{Closed: fault}
}

// targetWith returns the target of a backend.
func (r *routeResolver) targetWith(use *traefik.ServiceUse, id route.BackendID, summary BackendSummary) Target {
	target := Target{Backend: id, Empty: summary.Empty, Timeouts: summary.Timeouts}
	if summary.Closed != nil {
		target.Closed = r.refuseHere(use.Field, summary.Closed.Reason, "the Service %s/%s cannot be used: %s", id.Namespace, id.Name, summary.Closed.Text())
	}
	return target
}

// qualified returns the settings for a Service of a namespace. A transport is one of the
// object that names it, and not of the Service.
func qualified(settings *annotation.Service, service, own string) *annotation.Service {
	if settings.Transport == nil {
		return settings
	}
	copied := *settings
	transport := *settings.Transport
	transport.Field = "" // the same settings of two routes are one backend
	if service != own && !strings.Contains(transport.Name, "@") {
		transport.Name = own + "_" + transport.Name + "@kubernetescrd"
	}
	copied.Transport = &transport
	return &copied
}

// variantOf returns the variant of a backend with settings. Equal settings are one
// backend, so that routes share its connections and the health of its endpoints.
func variantOf(settings *annotation.Service) string {
	text, err := json.Marshal(settings)
	if err != nil {
		panic(err) // internal error: the type has no values that JSON lacks
	}
	sum := sha256.Sum256(text)
	return "traefik-" + hex.EncodeToString(sum[:8])
}
