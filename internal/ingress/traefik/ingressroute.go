package traefik

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// RouteObject is the spec of an IngressRoute. References in it are not resolved.
type RouteObject struct {
	EntryPoints []string
	Routes      []Route
	// TLS is nil if requests may come without it.
	TLS *RouteTLS
	// Faults are those of fields that concern all routes.
	Faults []refusal.Refusal
}

// Route is one route of an IngressRoute.
type Route struct {
	// Field is its field, such as spec.routes[0].
	Field string
	Rule  string
	// Syntax is that of the rule; empty for the default.
	Syntax string
	// Priority orders routes; 0 stands for the length of the rule.
	Priority    int32
	Middlewares []Reference
	Services    []ServiceUse
	Unrecorded  route.Unrecorded
	// Faults are those of the route. It must not be served with any.
	Faults []refusal.Refusal
}

// Reference is a reference to an object by name and namespace.
type Reference struct {
	Field string
	// Text is in the form that Candidates reads.
	Text string
}

// RouteTLS is the field tls of a route.
type RouteTLS struct {
	SecretName   string
	CertResolver string
	// Options names a TLSOption; nil for the default.
	Options *Reference
	Domains []Domain
	// Passthrough passes connections on without decrypting them.
	Passthrough bool
}

// Domain is a certificate that is requested: its main name and further ones.
type Domain struct {
	Field string
	Main  string
	SANs  []string
}

// IngressRoute decodes the spec of an IngressRoute.
func IngressRoute(object *snapshot.Resource) RouteObject {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	decoded := RouteObject{EntryPoints: r.texts("entryPoints")}
	decoded.TLS = routeTLS(r, false)
	r.refuse("parentRefs", "a route has no parents here: write its whole rule")
	for i, value := range r.list("routes") {
		own := &findings{}
		field := fmt.Sprintf("spec.routes[%d]", i)
		fields, ok := value.(map[string]any)
		if !ok {
			r.wrong(fmt.Sprintf("routes[%d]", i), "an object")
			continue
		}
		decoded.Routes = append(decoded.Routes, httpRoute(newRecord(field, fields, own), field))
	}
	r.rest()
	decoded.Faults = found.faults
	return decoded
}

// httpRoute decodes one route.
func httpRoute(r *record, field string) Route {
	decoded := Route{Field: field, Rule: r.text("match"), Syntax: syntax(r), Priority: priority(r)}
	if kind := r.text("kind"); kind != "" && kind != "Rule" {
		r.fault("kind", refusal.Unsupported, "%q is not supported: write Rule", brief(kind))
	}
	for _, used := range r.inners("middlewares") {
		decoded.Middlewares = append(decoded.Middlewares, objectReference(used))
		used.rest()
	}
	for _, used := range r.inners("services") {
		decoded.Services = append(decoded.Services, serviceUse(used))
	}
	recorded := r.inner("observability")
	decoded.Unrecorded = route.Unrecorded{
		AccessLog: isOff(recorded, "accessLogs"), Metrics: isOff(recorded, "metrics"), Tracing: isOff(recorded, "tracing"),
	}
	// The edge has one level of detail of spans.
	recorded.ignore("traceVerbosity")
	recorded.rest()
	r.rest()
	decoded.Faults = r.found.faults
	return decoded
}

// syntax reads the syntax of a rule; empty for the default.
func syntax(r *record) string {
	text := r.text("syntax")
	if text != "" && text != "v2" && text != "v3" {
		r.fault("syntax", refusal.Invalid, "%q is neither v2 nor v3", brief(text))
	}
	return text
}

// priority reads a priority; those beyond 32 bits are the highest or lowest.
func priority(r *record) int32 {
	return int32(min(max(r.whole("priority"), math.MinInt32), math.MaxInt32))
}

// isOff reports whether a flag is set to false.
func isOff(r *record, name string) bool {
	_, set := r.take(name)
	return set && !r.flag(name)
}

// objectReference reads a name and a namespace. The form with an underscore is not ambiguous. A
// name with a provider has its namespace in it.
func objectReference(r *record) Reference {
	name, namespace := r.text("name"), r.text("namespace")
	text := name
	if namespace != "" && !strings.Contains(name, "@") {
		text = namespace + "_" + name + "@" + provider
	}
	return Reference{Field: r.path, Text: text}
}

// routeTLS decodes the field tls, nil if it is missing. Only connections can be passed on
// as they are.
func routeTLS(r *record, connections bool) *RouteTLS {
	if _, set := r.take("tls"); !set {
		return nil
	}
	t := r.inner("tls")
	decoded := &RouteTLS{SecretName: t.text("secretName"), CertResolver: t.text("certResolver")}
	if _, set := t.take("options"); set {
		options := t.inner("options")
		if named := objectReference(options); named.Text != "" {
			decoded.Options = &named
		}
		options.rest()
	}
	store := t.inner("store")
	if name := store.text("name"); name != "" && name != "default" {
		store.fault("name", refusal.Unsupported, "%q is not supported: there is one store, default, as in Traefik", brief(name))
	}
	store.ignore("namespace")
	store.rest()
	for _, domain := range t.inners("domains") {
		decoded.Domains = append(decoded.Domains, Domain{Field: domain.path, Main: domain.text("main"), SANs: domain.texts("sans")})
		domain.rest()
	}
	if decoded.Passthrough = t.flag("passthrough"); decoded.Passthrough && !connections {
		t.fault("passthrough", refusal.Unsupported, "requests need TLS to end here: use an IngressRouteTCP")
	}
	t.rest()
	return decoded
}

// TraefikServices decodes the spec of a TraefikService.
func TraefikServices(object *snapshot.Resource) (ServiceGroup, []refusal.Refusal) {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	var group ServiceGroup
	_, weighted := r.take("weighted")
	_, mirrored := r.take("mirroring")
	_, failing := r.take("failover")
	switch {
	case weighted && mirrored || failing && (weighted || mirrored):
		found.add("spec", refusal.Invalid, "a TraefikService is one of weighted, mirroring and failover: make one of each")
	case failing:
		group = failover(r.inner("failover"))
	case weighted:
		w := r.inner("weighted")
		for _, used := range w.inners("services") {
			group.Services = append(group.Services, serviceUse(used))
		}
		group.Sticky = stickyCookie(w)
		w.rest()
	case mirrored:
		group = mirroring(r.inner("mirroring"))
	}
	r.refuse("highestRandomWeight", "set strategy to hrw of one Service, or use weighted")
	r.rest()
	if len(found.faults) == 0 && len(group.Services) == 0 {
		found.add("spec", refusal.Invalid, "it has no service: set weighted.services, mirroring.name or failover.service")
	}
	return group, found.faults
}

// maxMirrored bounds the body of a mirrored request, where no limit is set.
const maxMirrored = 1 << 20

// mirroring decodes a service whose requests are copied to others. Its own fields are
// those of a service.
func mirroring(r *record) ServiceGroup {
	body := !isOff(r, "mirrorBody")
	limit := r.whole("maxBodySize")
	if limit <= 0 {
		limit = maxMirrored
	}
	if !body {
		limit = 0
	}
	var group ServiceGroup
	for _, used := range r.inners("mirrors") {
		percent := used.whole("percent")
		if percent < 0 || percent > 100 {
			used.fault("percent", refusal.Invalid, "%d is not a number from 0 to 100", percent)
		}
		group.Mirrors = append(group.Mirrors, Mirror{Service: serviceUse(used), Percent: int(percent), MaxBodyBytes: limit})
	}
	group.Services = []ServiceUse{serviceUse(r)}
	return group
}

// failover decodes a service with another one that gets its requests while it has no healthy
// endpoint. The health of endpoints is known without healthCheck.
func failover(r *record) ServiceGroup {
	var group ServiceGroup
	for _, name := range []string{"service", "fallback"} {
		if _, set := r.take(name); !set {
			r.fault(name, refusal.Required, "name a Service")
			continue
		}
		use := serviceUse(r.inner(name))
		if use.Group {
			r.fault(name, refusal.Unsupported, "a TraefikService is not supported in failover: name a Service")
		}
		group.Services = append(group.Services, use)
	}
	r.ignore("healthCheck")
	r.refuse("errors", "a response is not repeated elsewhere: use a Middleware with errors for a page, or with retry")
	r.rest()
	group.Failover = true
	return group
}

// ServiceGroup is a TraefikService.
type ServiceGroup struct {
	Services []ServiceUse
	// Failover makes the second of two Services the fallback of the first.
	Failover bool
	// Sticky keeps clients at the Service that they got first.
	Sticky  *route.StickyCookie
	Mirrors []Mirror
}

// Mirror is a service that gets copies of requests.
type Mirror struct {
	Service      ServiceUse
	Percent      int
	MaxBodyBytes int64
}

// stickyCookie decodes sticky.cookie, nil if it is missing.
func stickyCookie(r *record) *route.StickyCookie {
	sticky := r.inner("sticky")
	defer sticky.rest()
	if _, set := sticky.take("cookie"); !set {
		return nil
	}
	c := sticky.inner("cookie")
	cookie := &route.StickyCookie{
		Name: c.text("name"), Path: c.text("path"), Domain: c.text("domain"), Secure: c.flag("secure"), HTTPOnly: c.flag("httpOnly"),
		SameSite: route.SameSite(strings.ToLower(c.text("sameSite"))), MaxAge: seconds(c, "maxAge"),
	}
	c.refuse("expires", "use maxAge, which browsers prefer")
	c.rest()
	backend := route.Backend{ID: route.BackendID{Name: "service"}, Sticky: cookie}
	for _, problem := range backend.Validate() {
		c.fault(cmp.Or(strings.TrimPrefix(problem.Field, "sticky."), "name"), refusal.Invalid, "%s", problem.Message)
	}
	return cookie
}
