package annotation

import (
	"errors"
	"fmt"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// ingressKeys returns our own annotations of an Ingress, without the filters.
// All but the grants and timeouts close the Ingress on a fault: they decide who
// reaches it, or which rule wins. A faulty grant grants nothing.
func ingressKeys() []*key {
	keys := []*key{
		{
			name: ownPrefix + "middlewares", closes: true,
			meaning: "Middlewares of group slipway.dev whose filters apply to requests, in this order.",
			form:    "list of `name` or `namespace/name`", otherwise: "none", example: "secured, compressed",
			read: names(func(r *reading) *[]Name { return &r.ownMiddlewares }, snapshot.Middleware, notEmpty(parseList)),
		},
		{
			name: ownPrefix + "entry-points", closes: true,
			meaning: "Entry points that serve the Ingress.",
			form:    "list of names", otherwise: "all", example: "web, websecure",
			read: setting(func(r *reading) *[]string { return &r.ingress.EntryPoints }, notEmpty(parseEntryPoints)),
		},
		{
			name: ownPrefix + "priority", closes: true,
			meaning: "Priority of the rules of the Ingress among those of its namespace for the same host; higher comes first. " +
				"With `hostSharing: open` it is the priority among all rules, regardless of their hosts and paths.",
			form: "whole number of 32 bits", otherwise: "0", example: "10",
			read: setting(func(r *reading) *int32 { return &r.ingress.Priority }, parsePriority),
		},
		{
			name: ownPrefix + "host-grants",
			meaning: "Namespaces that may have rules for the hosts of the Ingress, if these belong to its own namespace: " +
				"for whole hosts, or for path prefixes, element by element. It grants no certificates and no TLS options.",
			form: "`namespace` or `namespace=/prefix,/prefix`, with spaces between several", otherwise: "none", example: "team-b=/shop,/api team-c",
			read: hostGrants(func(r *reading) *[]HostGrant { return &r.ingress.HostGrants }),
		},
		{
			name: ownPrefix + "path-matcher", closes: true,
			meaning: "How paths of the type ImplementationSpecific are matched.",
			form:    "`Path`, `PathPrefix` or `PathRegexp`", otherwise: "PathPrefix", example: "PathRegexp",
			read: setting(func(r *reading) *PathMatcher { return &r.ingress.PathMatcher }, oneOf(MatchPath, MatchPathPrefix, MatchPathRegexp)),
		},
		{
			name: ownPrefix + "tls", closes: true,
			meaning: "Which requests are served: `only` those over TLS, or `both` with and without TLS.",
			form:    "`only` or `both`", otherwise: "both", example: "only",
			read: setting(func(r *reading) *TLSUse { return &r.ingress.TLS }, oneOf(TLSOnly, TLSBoth)),
		},
		{
			name: ownPrefix + "tls-options", closes: true,
			meaning: "TLSOption of group slipway.dev for the hosts of the Ingress.",
			form:    "`name` or `namespace/name`", otherwise: "the default options", example: "modern",
			read: oneName(func(r *reading) **Name { return &r.ingress.TLSOptions }, snapshot.TLSOption),
		},
	}
	return append(keys,
		timeoutKey("connect", "Timeout of connecting to a backend.", func(t *route.Timeouts) *route.Duration { return &t.Connect }),
		timeoutKey("header", "Timeout for the response head.", func(t *route.Timeouts) *route.Duration { return &t.Header }),
		timeoutKey("idle", "Timeout between two pieces of a body, in either direction.", func(t *route.Timeouts) *route.Duration { return &t.Idle }),
		timeoutKey("total", "Timeout of the whole exchange.", func(t *route.Timeouts) *route.Duration { return &t.Total }),
	)
}

// timeoutKey returns the key of one timeout. A fault does not close the
// Ingress: it is served with the defaults of the edge instead.
func timeoutKey(name, meaning string, slot func(*route.Timeouts) *route.Duration) *key {
	otherwise := "the default of the edge"
	if name == "total" {
		otherwise = "no bound"
	}
	return &key{
		name: ownPrefix + "timeout-" + name, meaning: meaning, form: "time such as `10s`", otherwise: otherwise, example: "30s",
		read: setting(func(r *reading) *route.Duration { return slot(&r.ingress.Timeouts) }, parseDuration),
	}
}

// names returns the reader of a key with a list of references. They are not
// resolved here.
func names(slot func(*reading) *[]Name, kind snapshot.Kind, parse func(string) ([]string, error)) func(*reading, place, string) {
	return func(r *reading, at place, text string) {
		list, err := parse(text)
		if err != nil {
			r.fault(at, refusal.Invalid, "%v", err)
			return
		}
		var found []Name
		for _, name := range list {
			found = append(found, Name{Kind: kind, Name: name, Field: at.field()})
		}
		give(r, at, slot(r), found)
	}
}

// oneName returns the reader of a key with one reference.
func oneName(slot func(*reading) **Name, kind snapshot.Kind) func(*reading, place, string) {
	return func(r *reading, at place, text string) {
		name, err := parseText(strings.TrimSpace(text))
		if err != nil {
			r.fault(at, refusal.Invalid, "%v", err)
			return
		}
		give(r, at, slot(r), &Name{Kind: kind, Name: name, Field: at.field()})
	}
}

// traefikRouterKeys returns Traefik's annotations of an Ingress. Most share a
// slot with one of ours, so that give detects a conflict between the two
// spellings.
func traefikRouterKeys() []*key {
	const router = traefikPrefix + "router."
	return append([]*key{
		{
			name: router + "entrypoints", closes: true, meaning: "As " + ownPrefix + "entry-points.",
			form: "list of names", otherwise: "all", example: "web,websecure",
			read: setting(func(r *reading) *[]string { return &r.ingress.EntryPoints }, parseEntryPoints),
		},
		{
			name: router + "middlewares", closes: true,
			meaning: "Middlewares of group traefik.io whose filters apply to requests, in this order. They come before those of " + ownPrefix + "middlewares.",
			form:    "list of `namespace-name@kubernetescrd`", otherwise: "none", example: "shop-auth@kubernetescrd",
			read: names(func(r *reading) *[]Name { return &r.traefikMiddlewares }, snapshot.TraefikMiddleware, parseList),
		},
		{
			name: router + "priority", closes: true,
			meaning: "Priority of the rules of the Ingress on Traefik's scale, where a rule without a priority has the length of its text: " +
				"a number below the lengths of the Ingress's own rules puts them behind those without a priority, and a number above them in front. " +
				"As there, 0 is none. It has the same limits as " + ownPrefix + "priority.",
			form: "whole number of 32 bits", otherwise: "0", example: "1000",
			read: readRouterPriority,
		},
		{
			name: router + "pathmatcher", closes: true, meaning: "As " + ownPrefix + "path-matcher.",
			form: "`Path`, `PathPrefix` or `PathRegexp`", otherwise: "PathPrefix", example: "PathRegexp",
			read: setting(func(r *reading) *PathMatcher { return &r.ingress.PathMatcher }, oneOf(MatchPath, MatchPathPrefix, MatchPathRegexp)),
		},
		{
			name: router + "rulesyntax", closes: true, meaning: "The syntax of rules. An Ingress has no rules in that syntax, so only the current version is accepted.",
			form: "`v3`", otherwise: "v3", example: "v3",
			read: func(r *reading, at place, text string) {
				if !strings.EqualFold(strings.TrimSpace(text), "v3") {
					r.fault(at, refusal.Unsupported, "%.64q is not supported: remove the annotation", text)
				}
			},
		},
	}, append(traefikTLSKeys(), traefikObservabilityKeys()...)...)
}

// readRouterPriority reads Traefik's priority. It cannot be set beside ours: the two
// have different scales, so equal numbers mean different things.
func readRouterPriority(r *reading, at place, text string) {
	setting(func(r *reading) *int32 { return &r.ingress.RouterPriority }, parsePriority)(r, at, text)
	if own, both := r.given[&r.ingress.Priority]; both {
		r.ingress.Priority, r.ingress.RouterPriority = 0, 0
		r.fault(at, refusal.Conflict, "%s is set too, on another scale: keep one of the two", own.name)
	}
}

// traefikTLSKeys returns Traefik's annotations about TLS. Traefik's
// router.tls=true serves encrypted requests only, which is our `only`.
func traefikTLSKeys() []*key {
	const tls = traefikPrefix + "router.tls"
	return []*key{
		{
			name: tls, closes: true, meaning: "`true` is as `only` of " + ownPrefix + "tls, `false` as `both`.",
			form: "`true` or `false`", otherwise: "false", example: "true",
			read: setting(func(r *reading) *TLSUse { return &r.ingress.TLS }, func(text string) (TLSUse, error) {
				only, err := parsePlainBool(text)
				if err != nil || !only {
					return TLSBoth, err
				}
				return TLSOnly, nil
			}),
		},
		{
			name: tls + ".certresolver", closes: true, meaning: "The resolver that obtains certificates.",
			form: "name", otherwise: "none", example: "letsencrypt",
			read: setting(func(r *reading) *string { return &r.ingress.CertResolver }, parseText),
		},
		{
			name: tls + ".options", closes: true, meaning: "TLSOption of group traefik.io for the hosts of the Ingress.",
			form: "`namespace-name@kubernetescrd`", otherwise: "the default options", example: "shop-modern@kubernetescrd",
			read: oneName(func(r *reading) **Name { return &r.ingress.TLSOptions }, snapshot.TraefikTLSOption),
		},
		{
			name: tls + ".domains.n.main", closes: true, meaning: "The main name of a certificate; n is a number.",
			form: "host", otherwise: "none", example: "example.com",
			read: func(r *reading, at place, text string) {
				host, err := parseHost(strings.TrimSpace(text))
				if err != nil {
					r.fault(at, refusal.Invalid, "%v", err)
					return
				}
				domain := r.domain(at.number)
				domain.Field = at.field()
				give(r, at, &domain.Main, host)
			},
		},
		{
			name: tls + ".domains.n.sans", closes: true, meaning: "Additional names of the same certificate.",
			form: "list of hosts", otherwise: "none", example: "a.example.com,*.b.example.com",
			read: func(r *reading, at place, text string) {
				list, err := parseHosts(text)
				if err != nil {
					r.fault(at, refusal.Invalid, "%v", err)
					return
				}
				give(r, at, &r.domain(at.number).SANs, list)
			},
		},
	}
}

// domain returns the domain of a number, and creates it if it is new.
func (r *reading) domain(number int) *Domain {
	if r.domains[number] == nil {
		r.domains[number] = &Domain{}
	}
	return r.domains[number]
}

// parseHost parses a host name with the validation of a rule, so that a
// certificate can be requested for exactly the hosts that a rule can have.
func parseHost(text string) (string, error) {
	host := strings.ToLower(text)
	rule := route.Rule{ID: route.ID{Name: "host"}, Host: host, Response: &route.Response{Status: 503}}
	if host == "" {
		return "", errEmpty
	}
	if problems := rule.Validate(); len(problems) > 0 {
		return "", errors.New(problems[0].Message)
	}
	return host, nil
}

// parseHosts parses a list of host names and stops at the first invalid one.
func parseHosts(text string) ([]string, error) {
	list, err := parseList(text)
	for i := range list {
		if err == nil {
			list[i], err = parseHost(list[i])
		}
	}
	return list, err
}

// traefikObservabilityKeys returns Traefik's annotations about telemetry. A
// fault closes nothing: requests are served correctly without it.
func traefikObservabilityKeys() []*key {
	const observability = traefikPrefix + "router.observability."
	shown := func(name, what string, slot func(*Observability) **bool) *key {
		return &key{
			name: observability + name, meaning: fmt.Sprintf("Whether requests have %s.", what),
			form: "`true` or `false`", otherwise: "true", example: "false",
			read: setting(func(r *reading) **bool { return slot(&r.ingress.Observability) }, parseBool),
		}
	}
	return []*key{
		shown("accesslogs", "lines in the access log", func(o *Observability) **bool { return &o.AccessLogs }),
		shown("metrics", "metrics", func(o *Observability) **bool { return &o.Metrics }),
		shown("tracing", "traces", func(o *Observability) **bool { return &o.Tracing }),
		{
			name: observability + "traceverbosity", meaning: "Verbosity of traces. Not supported.",
			form: "text", otherwise: "the options of the edge", example: "minimal",
			read: unsupported("remove it; the options of the edge set the contents of traces"),
		},
	}
}
