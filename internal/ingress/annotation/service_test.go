package annotation

import (
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

func TestParseService(t *testing.T) {
	for _, test := range []struct {
		name  string
		given map[string]string
		want  Service
	}{
		{"nothing", nil, Service{}},
		{"own settings", map[string]string{
			own + "scheme": "h2", own + "transport": "internal", own + "pass-host-header": "false", own + "native-lb": "true",
			own + "node-port-lb": "false", own + "max-in-flight": "10", own + "max-in-flight-per-endpoint": "5",
			own + "balance": "hash", own + "balance-hash": "cookie:session", own + "slow-start": "30s", own + "prefer-zone": "true",
			own + "health-check": "{path: /healthz, interval: 5s, statuses: [200, 300-399]}", own + "sticky-cookie": "stay",
		}, Service{
			Scheme: SchemeH2, Transport: &Name{snapshot.BackendTransport, "internal", field(own + "transport")},
			PassHostHeader: no(), NativeLB: yes(), NodePortLB: no(), MaxInFlight: 10, MaxInFlightPerEndpoint: 5,
			Balancing: route.Balancing{
				Method: route.BalanceHash, Hash: route.HashKey{By: route.KeyCookie, Name: "session"}, SlowStart: 30e9, PreferZone: true,
			},
			HealthCheck: &route.HealthCheck{Path: "/healthz", Interval: 5e9, Statuses: []route.StatusRange{{From: 200, To: 200}, {From: 300, To: 399}}},
			Sticky:      &route.StickyCookie{Name: "stay", Path: "/"},
		}},
		{"traefik settings, in any case", map[string]string{
			svc + "serversScheme": "h2c", svc + "serversTransport": "a-b@kubernetescrd", svc + "passHostHeader": "true",
			svc + "nativeLB": "false", svc + "nodePortLB": "true", svc + "sticky.cookie": "true", svc + "sticky.cookie.name": "stay",
			svc + "sticky.cookie.secure": "true", svc + "sticky.cookie.httpOnly": "true", svc + "sticky.cookie.sameSite": "None",
			svc + "sticky.cookie.maxAge": "60", svc + "sticky.cookie.path": "/a", svc + "sticky.cookie.domain": "example.com",
		}, Service{
			Scheme: SchemeH2C, Transport: &Name{snapshot.TraefikServersTransport, "a-b@kubernetescrd", field(svc + "serversTransport")},
			PassHostHeader: yes(), NativeLB: no(), NodePortLB: yes(),
			Sticky: &route.StickyCookie{
				Name: "stay", Path: "/a", Domain: "example.com", Secure: true, HTTPOnly: true, SameSite: route.SameSiteNone, MaxAge: 60e9,
			},
		}},
		{"a cookie by an attribute", map[string]string{svc + "sticky.cookie.name": "stay"}, Service{Sticky: &route.StickyCookie{Name: "stay", Path: "/"}}},
		{"a cookie that is off", map[string]string{svc + "sticky.cookie": "false", svc + "sticky.cookie.name": "stay"}, Service{}},
		{"both spellings of a cookie", map[string]string{svc + "sticky.cookie": "true", own + "sticky-cookie": "true"}, Service{Sticky: &route.StickyCookie{Path: "/"}}},
		{"a check by its path", map[string]string{own + "health-check": "/live"}, Service{HealthCheck: &route.HealthCheck{Path: "/live"}}},
		{"a check of gRPC", map[string]string{own + "health-check": "mode: grpc"}, Service{HealthCheck: &route.HealthCheck{Mode: route.CheckGRPC}}},
	} {
		got, faults := ParseService(test.given)
		if len(faults) > 0 || !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", test.name, faults, *got, test.want)
		}
	}
}

func TestServiceFaults(t *testing.T) {
	for _, test := range []struct {
		key, value string
		reason     refusal.Reason
		says       string
		closed     bool
	}{
		{own + "scheme", "ftp", refusal.Invalid, "use one of http", true},
		{svc + "serversscheme", "alpn", refusal.Invalid, "use one of http, https, h2c", true},
		{svc + "middlewares", "a@b", refusal.Unsupported, "router.middlewares", true},
		{svc + "sticky.cookie.expires", "3", refusal.Unsupported, "maxage", true},
		{svc + "sticky.cookie.samesite", "none", refusal.Invalid, "set secure", true},
		{svc + "sticky.cookie.maxage", "-1", refusal.Invalid, "seconds", true},
		{own + "sticky-cookie", "{name: 'a b'}", refusal.Invalid, "not a name", true},
		{own + "sticky-cookie", "{nme: a}", refusal.Invalid, "did you mean name?", true},
		{own + "transport", "", refusal.Invalid, "empty", true},
		{own + "native-lb", "x", refusal.Invalid, "neither", true},
		{own + "balance", "hash", refusal.Invalid, "balance-hash", false},
		{own + "balance", "random", refusal.Invalid, "use one of", false},
		{own + "balance-hash", "client", refusal.Conflict, "balance: hash", false},
		{own + "health-check", "live", refusal.Invalid, "form ^/", false},
		{own + "health-check", "{mode: tcp, path: /x}", refusal.Invalid, "only the mode http", false},
		{own + "max-in-flight", "0", refusal.Invalid, "over 0", false},
		{own + "slow-start", "-1s", refusal.Invalid, "not a time", false},
		{own + "prefer-zone", "near", refusal.Invalid, "neither", false},
		{own + "basic-auth", "users", refusal.Invalid, "only on an Ingress", true},
		{router + "middlewares", "a@b", refusal.Invalid, "only on an Ingress", false},
		{svc + "sticky.cooky", "true", refusal.Invalid, "did you mean", true},
		{own + "helth-check", "/", refusal.Invalid, "did you mean slipway.dev/health-check?", true},
		{own + "strip-prefx", "/", refusal.Invalid, "slipway.dev/strip-prefix, which goes on an Ingress", true},
	} {
		got, faults := ParseService(map[string]string{test.key: test.value})
		if len(faults) != 1 {
			t.Errorf("%s: %q: %v", test.key, test.value, faults)
			continue
		}
		fault := faults[0]
		if !strings.HasPrefix(fault.Field, field(test.key)) || fault.Reason != test.reason || !strings.Contains(fault.Message, test.says) || got.Closed != test.closed {
			t.Errorf("%s: %q: closed %t, %+v", test.key, test.value, got.Closed, fault)
		}
		if got.Closed = false; !reflect.DeepEqual(*got, Service{}) {
			t.Errorf("%s: %q left %+v", test.key, test.value, got)
		}
	}
}

func TestServiceConflicts(t *testing.T) {
	for _, pair := range [][4]string{
		{own + "scheme", "http", svc + "serversscheme", "https"},
		{own + "transport", "a", svc + "serverstransport", "a"},
		{own + "pass-host-header", "true", svc + "passhostheader", "false"},
		{own + "native-lb", "true", svc + "nativelb", "false"},
		{own + "node-port-lb", "true", svc + "nodeportlb", "false"},
		{own + "sticky-cookie", "a", svc + "sticky.cookie.name", "b"},
		{own + "sticky-cookie", "a", svc + "sticky.cookie", "false"},
	} {
		got, faults := ParseService(map[string]string{pair[0]: pair[1], pair[2]: pair[3]})
		if len(faults) != 1 || faults[0].Reason != refusal.Conflict || !got.Closed ||
			faults[0].Field != field(pair[2]) || !strings.Contains(faults[0].Message, pair[0]) {
			t.Errorf("%v: closed %t, %v", pair, got.Closed, faults)
		}
	}
}
