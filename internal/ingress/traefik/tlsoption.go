package traefik

import (
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// TLSOption converts a TLSOption to TLS conditions, without hosts. Their identity has
// the name of the object with a mark, so that it differs from an object of our own
// kind with that name.
func TLSOption(object *snapshot.Resource, source reference.Source) (reference.TLSConditions, []refusal.Refusal) {
	found := &findings{}
	r := newRecord("spec", object.Spec, found)
	conditions := reference.TLSConditions{Options: route.TLSOptions{
		ID:         route.TLSOptionsID{Namespace: object.Namespace, Name: "traefik_" + object.Name},
		MinVersion: tlsVersion(r, "minVersion"),
		MaxVersion: tlsVersion(r, "maxVersion"),
		ALPN:       protocols(r),
		SNIStrict:  r.flag("sniStrict"),
	}}
	// The suites depend on the minimum version, so they come after it.
	conditions.Options.CipherSuites = cipherSuites(r, conditions.Options.MinVersion)
	clientAuth(r.inner("clientAuth"), source.In(object.Namespace), &conditions)
	r.refuse("curvePreferences", "the edge offers the curves that are safe, and the client chooses; remove it")
	r.refuse("disableSessionTickets", "tickets make it cheap for clients to come again, and their keys change; remove it")
	// Neither has an effect in current Go: the order of suites is fixed.
	r.ignore("preferServerCipherSuites")
	r.rest()
	if len(found.faults) == 0 {
		for _, problem := range conditions.Options.Validate() {
			found.add("spec."+problem.Field, reference.RefusalOf(problem, "").Reason, "%s", problem.Message)
		}
	}
	if len(found.faults) > 0 {
		return reference.TLSConditions{}, found.faults
	}
	return conditions, nil
}

// tlsVersion reads a version by its name in crypto/tls. Missing gives the empty
// version, which is the default of the edge.
func tlsVersion(r *record, name string) route.TLSVersion {
	text := r.text(name)
	versions := map[string]route.TLSVersion{
		"": "", "VersionTLS10": "1.0", "VersionTLS11": "1.1", "VersionTLS12": "1.2", "VersionTLS13": "1.3",
	}
	version, known := versions[text]
	if !known {
		r.fault(name, refusal.Invalid, "%q is none of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13", brief(text))
	}
	return version
}

// cipherSuites reads the names of suites. Go always enables those of TLS 1.3,
// so they are left out. If that leaves none, the author wanted no TLS 1.2, and
// an empty list would enable the default suites instead; that is a fault.
func cipherSuites(r *record, least route.TLSVersion) []string {
	names := r.texts("cipherSuites")
	chosen := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		switch name {
		case "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256":
			return true
		}
		return false
	})
	if len(names) > 0 && len(chosen) == 0 && least != "1.3" {
		r.fault("cipherSuites", refusal.Invalid, "all of them are of TLS 1.3, so no older version could be spoken: set minVersion to VersionTLS13")
	}
	return chosen
}

// protocols reads the ALPN protocols. acme-tls/1 is dropped without a fault:
// Traefik's default list has it.
func protocols(r *record) []string {
	names := r.texts("alpnProtocols")
	chosen := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "acme-tls/1" })
	if len(names) > 0 && len(chosen) == 0 {
		r.fault("alpnProtocols", refusal.Invalid, "no protocol is left that requests come by: list h2 or http/1.1")
	}
	for _, name := range chosen {
		if name != "h2" && name != "http/1.1" {
			r.fault("alpnProtocols", refusal.Unsupported, "%q is not spoken: list h2 or http/1.1", brief(name))
		}
	}
	return chosen
}

// clientAuth reads the requirements on client certificates. The type and the
// Secrets must agree; a list of authorities that is never used is a sign of a
// wrong type, and admitting clients without verification would be the result.
func clientAuth(r *record, source reference.Source, conditions *reference.TLSConditions) {
	secrets, kind := r.texts("secretNames"), r.text("clientAuthType")
	r.rest()
	kinds := map[string]route.ClientAuth{
		"": "", "NoClientCert": route.ClientAuthNone, "RequestClientCert": route.ClientAuthRequest,
		"RequireAnyClientCert": route.ClientAuthRequireAny, "VerifyClientCertIfGiven": route.ClientAuthVerifyIfGiven,
		"RequireAndVerifyClientCert": route.ClientAuthVerify,
	}
	auth, known := kinds[kind]
	if !known {
		r.fault("clientAuthType", refusal.Invalid, "%q is none of NoClientCert, RequestClientCert, RequireAnyClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert", brief(kind))
		return
	}
	if kind == "" && len(secrets) > 0 {
		auth = route.ClientAuthVerify // the default with authorities
	}
	conditions.Options.ClientAuth = auth
	// Only these two modes use authorities.
	verifies := auth == route.ClientAuthVerifyIfGiven || auth == route.ClientAuthVerify
	switch {
	case verifies && len(secrets) == 0:
		r.fault("secretNames", refusal.Invalid, "certificates must be verified, and there is no CA certificate: name a Secret with ca.crt")
	case !verifies && len(secrets) > 0:
		r.fault("clientAuthType", refusal.Invalid, "there are authorities, but certificates are not verified: set RequireAndVerifyClientCert or VerifyClientCertIfGiven, or remove secretNames")
		return
	}
	for _, name := range secrets {
		authority, fault := namedAuthority(name, source)
		if fault != nil {
			r.fault("secretNames", fault.Reason, "%s", fault.Message)
			continue
		}
		if !slices.Contains(conditions.Options.ClientAuthorities, authority.ID) {
			conditions.Options.ClientAuthorities = append(conditions.Options.ClientAuthorities, authority.ID)
			conditions.Authorities = append(conditions.Authorities, authority)
		}
	}
}

// namedAuthority returns the bundle of a Secret of the same namespace: Traefik has no
// other form of these references.
func namedAuthority(name string, source reference.Source) (*route.Authority, *refusal.Refusal) {
	if strings.Contains(name, "/") {
		return nil, &refusal.Refusal{Reason: refusal.Invalid, Message: brief(name) + " is no name: name a Secret of the same namespace"}
	}
	authority, fault := source.Authority(name)
	if fault != nil {
		return nil, fault
	}
	if problems := authority.Validate(); len(problems) > 0 {
		return nil, &refusal.Refusal{Reason: refusal.Invalid, Message: "the Secret " + authority.ID.String() + ": " + problems[0].Message}
	}
	return authority, nil
}
