package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestTraffic: rewrites, headers of a backend, mirrors, timeouts, retries, sessions and CORS
// of an HTTPRoute, as clients and backends see them.
func TestTraffic(t *testing.T) {
	s := newScene(t, ownCluster(t, "experimental")) // it has retries
	var failed sync.Map
	mirrored := make(chan string, 1000)
	s.Serve(t, "c", backendC, func(w http.ResponseWriter, r *http.Request) {
		nonce := r.URL.Query().Get("fail")
		_, again := failed.LoadOrStore(nonce, true)
		switch {
		case r.URL.Path == "/slow":
			<-r.Context().Done()
		case r.URL.Path == "/mirrored":
			mirrored <- r.Host
		case nonce != "" && !again:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			fmt.Fprintf(w, "%s %s %s", r.Host, r.URL.Path, r.Header.Get("X-Backend"))
		}
	}, s.namespace)
	s.Apply(t, s.namespace, trafficRoute+"---\n"+kubetest.Backend("pair", backendA)+secondOfPair)
	gateway := s.programmed(t, "traffic")
	s.accepted(t, "traffic", metav1.ConditionTrue)
	at := "http://" + gateway.Status.Addresses[0].Value
	client := newClient(t, nil)
	expect(t, client, at+"/prefix/two", http.StatusOK, "one.example.org /new/two c")
	expect(t, client, at+"/full/two", http.StatusOK, gateway.Status.Addresses[0].Value+" /all ")
	expect(t, client, at+"/slow", http.StatusGatewayTimeout, "")
	expect(t, client, at+"/mirrored", http.StatusOK, "a ")
	programs.Eventually(t, func(context.Context) error {
		select {
		case <-mirrored:
			return nil
		default:
			return fmt.Errorf("the request was not mirrored")
		}
	})
	// Each nonce fails once: with the retry no client sees it.
	for i := range 3 {
		status, text, err := get(t.Context(), client, fmt.Sprintf("%s/retry?fail=%d", at, i))
		if err != nil || status != http.StatusOK {
			t.Errorf("a request that fails once gets %d %q, error %v", status, text, err)
		}
	}
	if status, _, err := get(t.Context(), client, at+"/full?fail=once"); err != nil || status != http.StatusInternalServerError {
		t.Errorf("without a retry it gets %d, error %v", status, err)
	}
	expectSessions(t, at+"/session/cart")
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodOptions, at+"/cors", nil))(t)
	request.Header.Set("Origin", "https://a.b.example.org")
	request.Header.Set("Access-Control-Request-Method", "PUT")
	response := must.Get(client.Do(request))(t)
	response.Body.Close()
	if got := response.Header; got.Get("Access-Control-Allow-Origin") != "https://a.b.example.org" || got.Get("Access-Control-Allow-Methods") != "PUT" {
		t.Errorf("the preflight gets %d %v", response.StatusCode, got)
	}
}

// expectSessions expects that each client of a URL stays where it was first sent, and that
// clients are sent to the endpoints of the Service pair and to the Service c.
func expectSessions(t *testing.T, url string) {
	t.Helper()
	reached := map[string]bool{}
	programs.Eventually(t, func(ctx context.Context) error {
		client := newClient(t, nil)
		client.Jar = must.Get(cookiejar.New(nil))(t)
		_, first, err := get(ctx, client, url)
		if err != nil {
			return err
		}
		for range 5 {
			if _, text, err := get(ctx, client, url); err != nil || text != first {
				t.Fatalf("the client of %q gets %q, error %v", first, text, err)
			}
		}
		reached[first] = true
		if len(reached) < 3 {
			return fmt.Errorf("new clients reach only %v", reached)
		}
		return nil
	})
	response := must.Get(newClient(t, nil).Get(url))(t)
	response.Body.Close()
	cookies := response.Cookies()
	if len(cookies) != 1 || cookies[0].Path != "/session" || cookies[0].MaxAge != 3600 || cookies[0].Secure || !cookies[0].HttpOnly {
		t.Errorf("the cookie of a session is %q", response.Header["Set-Cookie"])
	}
}

// secondOfPair is the second endpoint of the Service pair.
const secondOfPair = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pair-b, labels: {kubernetes.io/service-name: pair}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [` + backendB + `], conditions: {ready: true}}]
`

const trafficRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: traffic}
spec:
  gatewayClassName: slipway
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: traffic}
spec:
  parentRefs: [{name: traffic, port: 80}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /prefix}}]
    filters: [{type: URLRewrite, urlRewrite: {hostname: one.example.org, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
    backendRefs:
    - name: c
      port: 80
      filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Backend, value: c}]}}]
  - matches: [{path: {type: PathPrefix, value: /full}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /all}}}]
    backendRefs: [{name: c, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /slow}}]
    timeouts: {request: 500ms}
    backendRefs: [{name: c, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /mirrored}}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: c, port: 80}, percent: 100}}]
    backendRefs: [{name: a, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /cors}}]
    filters: [{type: CORS, cors: {allowOrigins: ["https://*.example.org"], allowMethods: ["*"], allowCredentials: true}}]
    backendRefs: [{name: a, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /session}}]
    sessionPersistence: {absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}
    backendRefs: [{name: pair, port: 80}, {name: c, port: 80}]
  - matches: [{path: {type: PathPrefix, value: /retry}}]
    retry: {codes: [500], attempts: 1, backoff: 1ms}
    backendRefs: [{name: c, port: 80}]
`

// TestMisdirected: a request on the connection of another HTTPS listener gets 421. A
// Gateway without any listener that is accepted is not accepted either.
func TestMisdirected(t *testing.T) {
	s := newScene(t, shared(t))
	authority := pkitest.NewAuthority(t)
	pair := s.issue(t, authority, "shop", "*.example.com")
	s.Apply(t, s.namespace, sharedGateway)
	gateway := s.programmed(t, "shared")
	s.accepted(t, "shared", metav1.ConditionTrue)
	url := "https://" + net.JoinHostPort(gateway.Status.Addresses[0].Value, "443") + "/"
	for _, test := range []struct {
		serverName, host string
		want             int
	}{
		{"shop.example.com", "shop.example.com", http.StatusOK},
		{"shop.example.com", "bank.example.com", http.StatusMisdirectedRequest},
		{"bank.example.com", "bank.example.com", http.StatusOK},
		{"other.example.com", "shop.example.com", http.StatusMisdirectedRequest},
		{"other.example.com", "else.example.com", http.StatusNotFound},
	} {
		client := newClient(t, &tls.Config{RootCAs: pair.Pool(), ServerName: test.serverName})
		programs.Eventually(t, func(ctx context.Context) error {
			r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
			r.Host = test.host
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != test.want {
				return fmt.Errorf("%s on the connection of %s gets %d, want %d", test.host, test.serverName, response.StatusCode, test.want)
			}
			return nil
		})
	}
	programs.Eventually(t, func(ctx context.Context) error {
		var none gatewayv1.Gateway
		if err := s.read(ctx, "gateways", "none", &none); err != nil {
			return err
		}
		for _, c := range none.Status.Conditions {
			if c.Type == "Accepted" && c.Status == metav1.ConditionFalse && c.Reason == "ListenersNotValid" {
				return nil
			}
		}
		return fmt.Errorf("the Gateway without a valid listener has the status %+v", none.Status)
	})
}

const sharedGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shared}
spec:
  gatewayClassName: slipway
  listeners:
  - {name: any, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: shop}]}}
  - {name: shop, port: 443, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop}]}}
  - {name: bank, port: 443, protocol: HTTPS, hostname: bank.example.com, tls: {certificateRefs: [{name: shop}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shared}
spec:
  parentRefs: [{name: shared}]
  hostnames: [shop.example.com, bank.example.com]
  rules: [{backendRefs: [{name: a, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: none}
spec:
  gatewayClassName: slipway
  listeners: [{name: invalid, port: 1111, protocol: INVALID}]
`
