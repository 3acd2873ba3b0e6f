package traefik_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// seedSpecs adds the specs of all cases, and gives a cluster with the objects
// that they name.
func seedSpecs(f *testing.F, folder string) *snapshot.Snapshot {
	cluster := snapshot.New()
	for _, archive := range archives.All(f, "testdata/"+folder+"/*.txtar") {
		for _, file := range archive.Files {
			switch {
			case file.Name == "cluster.yaml":
				fillCluster(f, cluster, file.Data)
			case strings.HasSuffix(file.Name, ".yaml"):
				text := must.Get(yaml.YAMLToJSON(file.Data))(f)
				f.Add(text)
			}
		}
	}
	return cluster
}

// fuzzSpecs runs a check over the specs of a kind, without those that an API
// server would never store.
func fuzzSpecs(f *testing.F, folder string, kind snapshot.Kind, check func(*testing.T, *snapshot.Resource, *snapshot.View)) {
	cluster := seedSpecs(f, folder)
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec map[string]any
		if json.Unmarshal(data, &spec) == nil {
			check(t, &snapshot.Resource{Kind: kind, Namespace: "shop", Name: "it", Spec: spec}, cluster.View())
		}
	})
}

// checkFaults holds faults to what people are promised of them.
func checkFaults(t *testing.T, faults []refusal.Refusal) {
	for _, fault := range faults {
		if !strings.HasPrefix(fault.Field, "spec") || fault.Reason == "" || fault.Message == "" {
			t.Errorf("%#v is incomplete", fault)
		}
		if text := fault.Text(); len(text) > 1200 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\x00") {
			t.Errorf("%q cannot be shown", text)
		}
	}
}

// FuzzMiddleware: every spec is either refused, or gives policies that the
// table takes; the same ones each time.
func FuzzMiddleware(f *testing.F) {
	fuzzSpecs(f, "middleware", snapshot.TraefikMiddleware, func(t *testing.T, object *snapshot.Resource, view *snapshot.View) {
		source := reference.Source{View: view, Namespace: "shop", CrossNamespace: true}
		policies, faults := traefik.Middleware(object, source)
		checkFaults(t, faults)
		if len(faults) > 0 && len(policies) > 0 {
			t.Errorf("policies %v beside faults %v", policies, faults)
		}
		rule := route.Rule{
			ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "it"}, Policies: policies, Response: &route.Response{Status: 404},
		}
		for _, problem := range rule.Validate() {
			t.Errorf("%s", problem)
		}
		again, faultsAgain := traefik.Middleware(object, source)
		if !reflect.DeepEqual(policies, again) || !reflect.DeepEqual(faults, faultsAgain) {
			t.Error("the second reading gives something else")
		}
	})
}

func FuzzTLSOption(f *testing.F) {
	fuzzSpecs(f, "tlsoption", snapshot.TraefikTLSOption, func(t *testing.T, object *snapshot.Resource, view *snapshot.View) {
		conditions, faults := traefik.TLSOption(object, reference.Source{View: view, Namespace: "shop"})
		checkFaults(t, faults)
		if len(faults) > 0 {
			return
		}
		for _, problem := range conditions.Options.Validate() {
			t.Errorf("%s", problem)
		}
		if len(conditions.Authorities) != len(conditions.Options.ClientAuthorities) {
			t.Errorf("authorities are missing in %v", conditions)
		}
	})
}

func FuzzServersTransportTCP(f *testing.F) {
	fuzzSpecs(f, "transporttcp", snapshot.TraefikServersTransportTCP, func(t *testing.T, object *snapshot.Resource, view *snapshot.View) {
		_, faults := traefik.ServersTransportTCP(object, reference.Source{View: view, Namespace: "shop"})
		checkFaults(t, faults)
	})
}

func FuzzServersTransport(f *testing.F) {
	fuzzSpecs(f, "transport", snapshot.TraefikServersTransport, func(t *testing.T, object *snapshot.Resource, view *snapshot.View) {
		transport, faults := traefik.ServersTransport(object, reference.Source{View: view, Namespace: "shop"})
		checkFaults(t, faults)
		if len(faults) > 0 {
			return
		}
		backend := route.Backend{
			ID:        route.BackendID{Namespace: "shop", Name: "web", Port: 443},
			Transport: route.Transport{Protocol: route.ProtocolTLS, TLS: transport.TLS},
		}
		table := route.Table{
			Backends: []*route.Backend{&backend}, Authorities: transport.Authorities, Certificates: transport.Certificates,
			Rules: []*route.Rule{{
				ID:       route.ID{Kind: "Ingress", Namespace: "shop", Name: "it"},
				Backends: []route.BackendRef{{Backend: backend.ID}}, Timeouts: transport.Timeouts,
			}},
		}
		for _, problem := range table.Validate() {
			t.Errorf("%s", problem)
		}
	})
}

// FuzzRoutes: the specs of routes, TraefikServices and TLSStores are decoded with faults that
// can be shown, and the same each time.
func FuzzRoutes(f *testing.F) {
	for _, text := range []string{
		`{"entryPoints":["dns"],"routes":[{"services":[{"name":"names","port":53,"weight":2}]}]}`,
		`{"routes":[{"match":"HostSNI(` + "`*`" + `)","services":[{"name":"db","port":"sql","tls":true,"serversTransport":"own","nativeLB":true}]}]}`,
		`{"failover":{"service":{"name":"a","port":80},"fallback":{"name":"b","kind":"TraefikService"},"errors":{"status":["500"]}}}`,
		`{"weighted":{"services":[{"name":"a","port":80}]},"failover":{}}`,
		`{"defaultCertificate":{"secretName":"one"},"certificates":[{"secretName":"two"},{}],"defaultGeneratedCert":{"resolver":"x"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec map[string]any
		if json.Unmarshal(data, &spec) != nil {
			return
		}
		object := &snapshot.Resource{Namespace: "shop", Name: "it", Spec: spec}
		read := func() []any {
			group, groupFaults := traefik.TraefikServices(object)
			if len(groupFaults) == 0 && group.Failover && len(group.Services) != 2 {
				t.Errorf("a failover has %d services", len(group.Services))
			}
			store, storeFaults := traefik.TLSStore(object)
			udp, tcp := traefik.IngressRouteUDP(object), traefik.IngressRouteTCP(object)
			for _, faults := range [][]refusal.Refusal{groupFaults, storeFaults, udp.Faults, tcp.Faults} {
				checkFaults(t, faults)
			}
			return []any{group, groupFaults, store, storeFaults, udp, tcp}
		}
		if first, again := read(), read(); !reflect.DeepEqual(first, again) {
			t.Errorf("the second reading gives %v, and not %v", again, first)
		}
	})
}
