package policy

import (
	"reflect"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

func TestTLSOption(t *testing.T) {
	w := newWorld(t)
	got, faults := TLSOption(object(t, snapshot.TLSOption, "modern", `{minVersion: "1.2", maxVersion: "1.3",
		cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], clientAuth: {secrets: [trust, trust]}, alpn: [h2], sniStrict: true}`), w.source)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	trust := route.AuthorityID{Namespace: "shop", Name: "trust"}
	want := route.TLSOptions{
		ID: route.TLSOptionsID{Namespace: "shop", Name: "modern"}, MinVersion: "1.2", MaxVersion: "1.3",
		CipherSuites: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ClientAuth: route.ClientAuthVerify,
		ClientAuthorities: []route.AuthorityID{trust}, ALPN: []string{"h2"}, SNIStrict: true,
	}
	if !reflect.DeepEqual(got.Options, want) || len(got.Authorities) != 1 || got.Authorities[0].ID != trust {
		t.Errorf("%+v", got)
	}
}

func TestTLSOptionFaults(t *testing.T) {
	for _, test := range []struct {
		spec, field string
		reason      refusal.Reason
		says        string
	}{
		{`{minVersion: 1.2}`, "spec.minVersion", refusal.Invalid, "in quotes"},
		{`{minVersion: "1.3", maxVersion: "1.2"}`, "spec.minVersion", refusal.Invalid, ""},
		{`{cipherSuites: [ROT13]}`, "spec.cipherSuites[0]", refusal.Invalid, "no cipher suite"},
		{`{clientAuth: {}}`, "spec.clientAuth.secrets", refusal.Invalid, "there is no authority"},
		{`{clientAuth: {mode: request, secrets: [trust]}}`, "spec.clientAuth.secrets", refusal.Invalid, "not verified"},
		{`{clientAuth: {secrets: [nothing]}}`, "spec.clientAuth.secrets[0]", refusal.NotFound, "no Secret"},
		{`{clientAuth: {secrets: [junk]}}`, "spec.clientAuth.secrets[0]", refusal.Invalid, "not certificates"},
		{`{clientAuth: {secrets: [other/users]}}`, "spec.clientAuth.secrets[0]", refusal.NotAllowed, "another namespace"},
		{`{versions: all}`, "spec.versions", refusal.Invalid, "no such field"},
	} {
		got, faults := TLSOption(object(t, snapshot.TLSOption, "o", test.spec), newWorld(t).source)
		wantFault(t, faults, test.field, test.reason, test.says)
		if !reflect.DeepEqual(got, reference.TLSConditions{}) {
			t.Errorf("%s gave %+v", test.spec, got)
		}
	}
}

func TestTransport(t *testing.T) {
	w := newWorld(t)
	got, faults := Transport(object(t, snapshot.BackendTransport, "internal", `{tls: {serverName: cart.local, caSecret: trust, certificateSecret: pair},
		timeouts: {connect: 1s, header: 2s, idle: 3s, total: 4s}, http1Only: true}`), w.source)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := &route.UpstreamTLS{
		ServerName: "cart.local", Authority: route.AuthorityID{Namespace: "shop", Name: "trust"},
		Certificate: route.CertificateID{Namespace: "shop", Name: "pair"},
	}
	if !reflect.DeepEqual(got.TLS, want) || got.Timeouts != (route.Timeouts{Connect: 1e9, Header: 2e9, Idle: 3e9, Total: 4e9}) ||
		!got.HTTP1Only || len(got.Authorities) != 1 || len(got.Certificates) != 1 {
		t.Errorf("%+v", got)
	}
	if got, faults := Transport(object(t, snapshot.BackendTransport, "nothing", `{}`), w.source); len(faults) > 0 || !reflect.DeepEqual(got, reference.Transport{}) {
		t.Errorf("%+v %v", got, faults)
	}
}

func TestTransportFaults(t *testing.T) {
	for _, test := range []struct {
		spec, field string
		reason      refusal.Reason
		says        string
	}{
		{`{tls: {serverName: "*.x"}}`, "spec.tls.serverName", refusal.Invalid, "wildcard"},
		{`{tls: {skipVerify: true, caSecret: trust}}`, "spec.tls.skipVerify", refusal.Invalid, "remove one"},
		{`{tls: {caSecret: nothing}}`, "spec.tls.caSecret", refusal.NotFound, "no Secret"},
		{`{tls: {caSecret: junk}}`, "spec.tls.caSecret", refusal.Invalid, "not certificates"},
		{`{tls: {certificateSecret: junk}}`, "spec.tls.certificateSecret", refusal.Invalid, "with its key"},
		{`{tls: {certificateSecret: trust}}`, "spec.tls.certificateSecret", refusal.Invalid, "no tls.crt"},
		{`{timeouts: {connect: 5}}`, "spec.timeouts.connect", refusal.Invalid, "in quotes"},
	} {
		_, faults := Transport(object(t, snapshot.BackendTransport, "b", test.spec), newWorld(t).source)
		wantFault(t, faults, test.field, test.reason, test.says)
	}
}
