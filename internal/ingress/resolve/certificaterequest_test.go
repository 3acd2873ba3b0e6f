package resolve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

const (
	router        = "traefik.ingress.kubernetes.io/router."
	resolverField = "metadata.annotations[" + router + "tls.certresolver]"
)

// requesting makes an Ingress that wants certificates of a resolver.
func requesting(resolver string, hosts ...string) *networkingv1.Ingress {
	ingress := ingressOf(hosts...)
	ingress.Annotations[router+"tls.certresolver"] = resolver
	return ingress
}

func fetching() resolve.Options {
	return resolve.Options{Resolvers: map[string]resolve.CertificateResolver{"le": {}, "own": {}}}
}

// requested lists requests as resolver, hosts and whether they are pending.
func requested(site *resolve.ResolvedIngress) []string {
	var all []string
	for _, w := range site.Requests {
		state := "ready"
		if w.Pending != nil {
			state = string(w.Pending.Reason)
		}
		all = append(all, w.Resolver+" "+strings.Join(w.Hosts, ",")+" "+state)
	}
	return all
}

func wantRequests(t *testing.T, site *resolve.ResolvedIngress, want ...string) {
	t.Helper()
	if got := requested(site); !slices.Equal(got, want) {
		t.Errorf("requests:\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func closedPaths(site *resolve.ResolvedIngress) (hosts []string) {
	for _, path := range site.Paths {
		if path.Target.Closed != nil {
			hosts = append(hosts, path.Host)
		}
	}
	return hosts
}

// TestRequests: one for each host of the rules, without those that a Secret is
// named for, and those that no authority would give one for.
func TestRequests(t *testing.T) {
	ingress := requesting("LE", "a.example.com", "b.example.com", "x.own.example.com", "*.wild.example.com", "*.own.example.com", "")
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"b.example.com"}, SecretName: "missing"}, {Hosts: []string{"*.own.example.com"}, SecretName: "other"}}
	site := resolved(snapshotOf(ingress, serviceOf("app")), fetching())
	wantRequests(t, site, "le a.example.com NotReady")
	wantTold(t, site, "spec.tls[0].secretName NotFound", "spec.tls[1].secretName NotFound", resolverField+" Unsupported")
	if got := closedPaths(site); !slices.Equal(got, []string{"*.wild.example.com"}) {
		t.Errorf("closed: %q", got)
	}
}

// TestRequestedWildcards: a resolver with DNS challenges requests them, alone and
// together with their domain.
func TestRequestedWildcards(t *testing.T) {
	options := resolve.Options{Resolvers: map[string]resolve.CertificateResolver{"dns": {Wildcards: true, Namespaces: []string{"shop"}}}}
	site := resolved(snapshotOf(requesting("dns", "*.wild.example.com", "wild.example.com"), serviceOf("app")), options)
	wantRequests(t, site, "dns *.wild.example.com NotReady", "dns wild.example.com NotReady")
	wantTold(t, site)
	ingress := requesting("dns", "a.example.com")
	ingress.Annotations[router+"tls.domains.0.main"] = "example.com"
	ingress.Annotations[router+"tls.domains.0.sans"] = "*.example.com"
	site = resolved(snapshotOf(ingress, serviceOf("app")), options)
	wantRequests(t, site, "dns example.com,*.example.com NotReady")
	if got := closedPaths(site); len(got) > 0 {
		t.Errorf("closed: %q", got)
	}
}

// TestResolverOfOtherNamespace: a resolver for other namespaces requests nothing, and
// the refusal names the option.
func TestResolverOfOtherNamespace(t *testing.T) {
	options := resolve.Options{Resolvers: map[string]resolve.CertificateResolver{"dns": {Wildcards: true, Namespaces: []string{"platform"}}}}
	site := resolved(snapshotOf(requesting("dns", "a.example.com"), serviceOf("app")), options)
	wantRequests(t, site)
	wantTold(t, site, resolverField+" NotAllowed")
	if message := site.Refusals[0].Message; !strings.Contains(message, "certificatesResolvers.dns.acme.dnsChallenge.namespaces") {
		t.Error(message)
	}
	if got := closedPaths(site); !slices.Equal(got, []string{"a.example.com"}) {
		t.Errorf("closed: %q", got)
	}
}

// TestRequestedDomains: the domains of the annotations are the certificates, and
// the hosts of the rules are not.
func TestRequestedDomains(t *testing.T) {
	ingress := requesting("own", "a.example.com")
	ingress.Annotations[router+"tls.domains.0.main"] = "Main.example.com"
	ingress.Annotations[router+"tls.domains.0.sans"] = "san.example.com,main.example.com,*.wild.example.com"
	ingress.Annotations[router+"tls.domains.1.main"] = "second.example.com"
	site := resolved(snapshotOf(ingress, serviceOf("app")), fetching())
	wantRequests(t, site, "own main.example.com,san.example.com NotReady", "own second.example.com NotReady")
	if got := closedPaths(site); len(got) > 0 {
		t.Errorf("closed: %q", got)
	}
}

// TestRequestedSecret: a certificate that is there is used, one that is for other
// hosts is not, and one that is out of date is reported.
func TestRequestedSecret(t *testing.T) {
	now := time.Now()
	at := certrequest.SecretName("le", []string{"a.example.com"})
	for _, c := range []struct {
		name, host string
		from, to   time.Time
		requested  string
		told       []string
		used       bool
	}{
		{"there", "a.example.com", now.Add(-time.Hour), now.Add(time.Hour), "le a.example.com ready", nil, true},
		{"expired", "a.example.com", now.Add(-2 * time.Hour), now.Add(-time.Hour), "le a.example.com ready", []string{resolverField + " Invalid"}, true},
		{"of others", "b.example.com", now.Add(-time.Hour), now.Add(time.Hour), "le b.example.com NotReady", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := at
			if c.host != "a.example.com" {
				name = certrequest.SecretName("le", []string{c.host})
			}
			site := resolved(snapshotOf(requesting("le", c.host), serviceOf("app"), secretOf(t, name, c.from, c.to)), fetching())
			wantRequests(t, site, c.requested)
			wantTold(t, site, c.told...)
			if used := len(site.Certificates) == 1; used != c.used {
				t.Errorf("used: %v", site.Certificates)
			}
			if got := closedPaths(site); len(got) > 0 {
				t.Errorf("closed: %q", got)
			}
		})
	}
}

// TestUnknownResolver: the known ones are named, and what has no other
// certificate is not served.
func TestUnknownResolver(t *testing.T) {
	now := time.Now()
	ingress := requesting("staging", "a.example.com", "b.example.com")
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.example.com"}, SecretName: "good"}}
	site := resolved(snapshotOf(ingress, serviceOf("app"), secretOf(t, "good", now.Add(-time.Hour), now.Add(time.Hour))), fetching())
	wantTold(t, site, resolverField+" NotFound")
	if message := site.Refusals[0].Message; !strings.Contains(message, "le, own") {
		t.Error(message)
	}
	if got := closedPaths(site); !slices.Equal(got, []string{"b.example.com"}) {
		t.Errorf("closed: %q", got)
	}
}

// TestRequestLimit: one Ingress cannot have everything fetched.
func TestRequestLimit(t *testing.T) {
	var hosts []string
	for i := range 150 {
		hosts = append(hosts, fmt.Sprintf("h%d.example.com", i))
	}
	site := resolved(snapshotOf(requesting("le", hosts...), serviceOf("app")), fetching())
	if len(site.Requests) != 100 {
		t.Errorf("%d requests", len(site.Requests))
	}
	wantTold(t, site, resolverField+" TooLarge")
}

// TestRequestReads: the Secret is read, so that it is followed.
func TestRequestReads(t *testing.T) {
	view := snapshotOf(requesting("le", "a.example.com"), serviceOf("app")).View()
	resolve.Ingress(view, "shop", "cart", fetching(), &looks{})
	want := snapshot.Ref{Kind: snapshot.Secret, Namespace: "shop", Name: certrequest.SecretName("le", []string{"a.example.com"})}
	for ref := range view.Reads() {
		if ref == want {
			return
		}
	}
	t.Errorf("%s was not read", want)
}
